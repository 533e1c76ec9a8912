// The profile document (see profile.schema.json) and its checked, flat form.
//
// The document comes from a file that may be cut off or made by another version: every index is
// checked here, once, so that nothing later can read outside a list or show a number that is
// none.

export interface ProfileDocument {
    title: string;
    start_ns: string;
    duration_ns: number;
    default: number;
    types: { type: string; unit: string }[];
    strings: string[];
    functions: [name: number, file: number, startLine: number][];
    frames: [fn: number, line: number][];
    stacks: [parent: number, frame: number][];
    threads: [name: number, nativeId: number][];
    states: number[];
    samples: [stack: number, thread: number, state: number, values: number[]][];
    notes: string[];
    rows?: [label: string, value: string][];
}

export interface SampleType {
    readonly type: string;
    readonly unit: string;
}

export interface Profile {
    readonly title: string;
    readonly startNs: bigint;
    readonly durationNs: number;
    readonly defaultType: number;
    readonly types: readonly SampleType[];
    readonly functions: readonly { name: string; file: string; line: number }[];
    readonly frameFunction: Int32Array;
    readonly frameLine: Int32Array;
    /** -1 for a stack's first (outermost) frame. A parent's index is below its child's. */
    readonly stackParent: Int32Array;
    readonly stackFrame: Int32Array;
    readonly threads: readonly { name: string; nativeId: number }[];
    readonly states: readonly string[];
    readonly sampleStack: Int32Array;
    readonly sampleThread: Int32Array;
    /** -1 for a sample without a state. */
    readonly sampleState: Int32Array;
    /** One list a sample type, one value a sample. */
    readonly values: readonly Float64Array[];
    readonly notes: readonly string[];
    readonly rows: readonly (readonly [string, string])[];
}

/** Says to a person what is wrong with the document. */
export class ProfileError extends Error {}

function fail(what: string): never {
    throw new ProfileError(what);
}

function list(document: Record<string, unknown>, name: string): unknown[] {
    const value = document[name];
    return Array.isArray(value) ? value : fail(`the list “${name}” is missing`);
}

function tuple(value: unknown, length: number, where: string): unknown[] {
    return Array.isArray(value) && value.length === length
        ? value
        : fail(`${where} is not a list of ${length}`);
}

function integer(value: unknown, low: number, end: number, where: string): number {
    return Number.isInteger(value) && (value as number) >= low && (value as number) < end
        ? (value as number)
        : fail(
              `${where} is ${JSON.stringify(value)}, not a whole number from ${low} to ${end - 1}`,
          );
}

function amount(value: unknown, where: string): number {
    return typeof value === "number" && Number.isFinite(value) && value >= 0
        ? value
        : fail(`${where} is ${JSON.stringify(value)}, not an amount`);
}

function text(value: unknown, where: string): string {
    return typeof value === "string" ? value : fail(`${where} is not text`);
}

const ANY = Number.MAX_SAFE_INTEGER;
const LINE = 2 ** 31;

/** Checks the document's text and flattens it. Throws ProfileError. */
export function parseProfile(source: string): Profile {
    let parsed: unknown;
    try {
        parsed = JSON.parse(source.replace(/^\s*\/\*PROFILE\*\//, ""));
    } catch {
        fail("its data is not complete JSON: the file is cut off or damaged");
    }
    if (parsed === null) {
        fail("it is the empty page, into which no profile has been written yet");
    }
    if (typeof parsed !== "object" || Array.isArray(parsed)) {
        fail("its data is not a profile");
    }
    const document = parsed as Record<string, unknown>;

    const strings = list(document, "strings").map((item, i) => text(item, `strings[${i}]`));
    const string = (value: unknown, where: string): string =>
        strings[integer(value, 0, strings.length, where)]!;

    const types = list(document, "types").map((item, i) => {
        const entry = (item ?? {}) as Record<string, unknown>;
        return {
            type: text(entry.type, `types[${i}].type`),
            unit: text(entry.unit, `types[${i}].unit`),
        };
    });
    if (types.length === 0) {
        fail("it has no sample type");
    }

    const functions = list(document, "functions").map((item, i) => {
        const [name, file, line] = tuple(item, 3, `functions[${i}]`);
        return {
            name: string(name, `functions[${i}][0]`),
            file: string(file, `functions[${i}][1]`),
            line: integer(line, 0, LINE, `functions[${i}][2]`),
        };
    });

    const frames = list(document, "frames");
    const frameFunction = new Int32Array(frames.length);
    const frameLine = new Int32Array(frames.length);
    frames.forEach((item, i) => {
        const [fn, line] = tuple(item, 2, `frames[${i}]`);
        frameFunction[i] = integer(fn, 0, functions.length, `frames[${i}][0]`);
        frameLine[i] = integer(line, 0, LINE, `frames[${i}][1]`);
    });

    const stacks = list(document, "stacks");
    const stackParent = new Int32Array(stacks.length);
    const stackFrame = new Int32Array(stacks.length);
    stacks.forEach((item, i) => {
        const [parent, frame] = tuple(item, 2, `stacks[${i}]`);
        stackParent[i] = integer(parent, -1, i, `stacks[${i}][0]`);
        stackFrame[i] = integer(frame, 0, frames.length, `stacks[${i}][1]`);
    });

    const threads = list(document, "threads").map((item, i) => {
        const [name, nativeId] = tuple(item, 2, `threads[${i}]`);
        return {
            name: string(name, `threads[${i}][0]`),
            nativeId: integer(nativeId, 0, ANY, `threads[${i}][1]`),
        };
    });
    const states = list(document, "states").map((item, i) => string(item, `states[${i}]`));

    const samples = list(document, "samples");
    const sampleStack = new Int32Array(samples.length);
    const sampleThread = new Int32Array(samples.length);
    const sampleState = new Int32Array(samples.length);
    const values = types.map(() => new Float64Array(samples.length));
    samples.forEach((item, i) => {
        const [stack, thread, state, row] = tuple(item, 4, `samples[${i}]`);
        sampleStack[i] = integer(stack, 0, stacks.length, `samples[${i}][0]`);
        sampleThread[i] = integer(thread, 0, threads.length, `samples[${i}][1]`);
        sampleState[i] = integer(state, -1, states.length, `samples[${i}][2]`);
        tuple(row, types.length, `samples[${i}][3]`).forEach((value, k) => {
            values[k]![i] = amount(value, `samples[${i}][3][${k}]`);
        });
    });

    const start = text(document.start_ns, "start_ns");
    return {
        title: text(document.title, "title"),
        startNs: /^[0-9]{1,20}$/.test(start) ? BigInt(start) : fail("start_ns is not a time"),
        durationNs: amount(document.duration_ns, "duration_ns"),
        defaultType: integer(document.default, 0, types.length, "default"),
        types,
        functions,
        frameFunction,
        frameLine,
        stackParent,
        stackFrame,
        threads,
        states,
        sampleStack,
        sampleThread,
        sampleState,
        values,
        notes: list(document, "notes").map((item, i) => text(item, `notes[${i}]`)),
        rows: (document.rows === undefined ? [] : list(document, "rows")).map((item, i) => {
            const [label, value] = tuple(item, 2, `rows[${i}]`);
            return [text(label, `rows[${i}][0]`), text(value, `rows[${i}][1]`)] as const;
        }),
    };
}
