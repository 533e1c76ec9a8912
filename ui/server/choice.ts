// What is looked at: kept in the address's query, so that a view can be shared; how it is looked at
// is in the fragment, which belongs to the flame graph (flamegraph/view.ts).

export const VIEWS = [
    "graph",
    "calls",
    "timeline",
    "waits",
    "exceptions",
    "leaks",
    "changes",
    "cost",
] as const;
export type ViewName = (typeof VIEWS)[number];

export interface Choice {
    readonly service: string;
    /** A span up to now ("1h"), or two times in seconds since 1970 ("1700000000-1700003600"). */
    readonly range: string;
    readonly env: string;
    readonly version: string;
    readonly host: string;
    /** Conditions as the API takes them: NAME=VALUE, NAME!=VALUE, NAME=~PATTERN. */
    readonly where: readonly string[];
    readonly view: ViewName;
    /** The sample type; empty: the server's choice. */
    readonly type: string;
    /** What the values over time are split by: a label, "function", or nothing. */
    readonly split: string;
    /** What changes are compared with: the time before, or another version. */
    readonly against: string;
    /** Changes per second of a process, or per request. */
    readonly per: "" | "request";
    /** Changes: those that got worse alone. */
    readonly only: "" | "worse";
    /** Timeline: the number of a profile; empty: the newest. */
    readonly profile: string;
    /** Timeline: lanes of threads, or of tasks. */
    readonly lanes: "" | "tasks";
}

export const SPANS = ["15m", "1h", "6h", "24h", "7d", "30d"] as const;
export const START: Choice = {
    service: "",
    range: "1h",
    env: "",
    version: "",
    host: "",
    where: [],
    view: "graph",
    type: "",
    split: "",
    against: "",
    per: "",
    only: "",
    profile: "",
    lanes: "",
};

type TextName = Exclude<keyof Choice, "where">;
const TEXTS = Object.keys(START).filter((name) => name !== "where") as TextName[];
const ALLOWED: Partial<Record<TextName, readonly string[]>> = {
    view: VIEWS,
    per: ["", "request"],
    only: ["", "worse"],
    lanes: ["", "tasks"],
};

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 };

export function spanSeconds(span: string): number {
    const match = /^(\d{1,6})([smhd])$/.exec(span);
    return match ? Number(match[1]) * UNITS[match[2]!]! : 0;
}

/** The range in seconds since 1970; what is no range is the last hour. */
export function rangeOf(range: string, now: number): readonly [from: number, until: number] {
    const two = /^(\d{1,12})-(\d{1,12})$/.exec(range);
    if (two && Number(two[1]) < Number(two[2])) {
        return [Number(two[1]), Number(two[2])];
    }
    return [now - (spanSeconds(range) || 3600), now];
}

export function decodeChoice(query: string): Choice {
    const parts = new URLSearchParams(query);
    const choice: Record<string, unknown> = {
        where: parts.getAll("where").filter((item) => item !== ""),
    };
    for (const name of TEXTS) {
        const value = parts.get(name) ?? START[name];
        choice[name] = (ALLOWED[name]?.includes(value) ?? true) ? value : START[name];
    }
    return choice as unknown as Choice;
}

export function encodeChoice(choice: Choice): string {
    const parts = new URLSearchParams();
    for (const name of TEXTS) {
        if (choice[name] !== START[name]) {
            parts.set(name, choice[name]);
        }
    }
    choice.where.forEach((item) => parts.append("where", item));
    const text = parts.toString();
    return text === "" ? "" : `?${text}`;
}

/** What changes with the service: filters and a window mean nothing for another one. */
export function ofService(service: string): Partial<Choice> {
    return { service, env: "", version: "", host: "", where: [], type: "", profile: "" };
}

/** The filters with one more, which is not added twice. */
export function withFilter(choice: Choice, name: string, value: string): readonly string[] {
    const item = `${name}=${value}`;
    return choice.where.includes(item) ? choice.where : [...choice.where, item];
}

/** The arguments that all questions about this choice have. */
export function argumentsOf(choice: Choice, now: number): URLSearchParams {
    const [from, until] = rangeOf(choice.range, now);
    const parts = new URLSearchParams({ from: String(from), until: String(until) });
    for (const name of ["service", "env", "version", "host"] as const) {
        if (choice[name] !== "") {
            parts.set(name, choice[name]);
        }
    }
    choice.where.forEach((item) => parts.append("where", item));
    return parts;
}

/** Those, and the arguments that say what to compare with. */
export function comparisonOf(choice: Choice, now: number): URLSearchParams {
    const parts = argumentsOf(choice, now);
    const [from, until] = rangeOf(choice.range, now);
    const before = new URLSearchParams(parts);
    before.delete("from");
    before.delete("until");
    if (choice.against.startsWith("version:")) {
        before.set("version", choice.against.slice("version:".length));
        before.set("from", String(from));
        before.set("until", String(until));
    } else {
        const distance = spanSeconds(choice.against) || until - from;
        before.set("from", String(from - distance));
        before.set("until", String(until - distance));
    }
    before.forEach((value, name) => parts.append(`before_${name}`, value));
    for (const name of ["type", "per", "only"] as const) {
        if (choice[name] !== "") {
            parts.set(name, choice[name]);
        }
    }
    return parts;
}

/** What decides which profiles are meant: the same key, the same profiles. */
export function filterKey(choice: Choice): string {
    const { service, range, env, version, host, where } = choice;
    return JSON.stringify([service, range, env, version, host, where]);
}
