// Questions to the server that this page came from.

export class ApiError extends Error {
    constructor(
        readonly code: number,
        message: string,
    ) {
        super(message);
    }
}

const KEY = "pyrometer-token";

/** The token for reading, kept until the browser is closed. */
export function token(): string {
    try {
        return sessionStorage.getItem(KEY) ?? "";
    } catch {
        return "";
    }
}

export function setToken(value: string): void {
    try {
        sessionStorage.setItem(KEY, value);
    } catch {
        // Without storage the token is asked for again.
    }
}

/** Asks; the answer as text. Throws ApiError: code 0 when the server was not reached. */
export async function ask(
    path: string,
    query: URLSearchParams,
    signal?: AbortSignal,
): Promise<string> {
    const headers: Record<string, string> = {};
    if (token() !== "") {
        headers.Authorization = `Bearer ${token()}`;
    }
    let answer: Response;
    let text: string;
    try {
        answer = await fetch(`${path}?${query}`, { headers, ...(signal ? { signal } : {}) });
        text = await answer.text();
    } catch (error) {
        if (signal?.aborted) {
            throw error;
        }
        throw new ApiError(0, "the server cannot be reached");
    }
    if (!answer.ok) {
        let why = answer.statusText;
        try {
            why = (JSON.parse(text) as { error: string }).error;
        } catch {
            // not of ours
        }
        throw new ApiError(answer.status, why);
    }
    return text;
}

/** The same, as what the server's JSON says. */
export async function askJson<T>(
    path: string,
    query: URLSearchParams,
    signal?: AbortSignal,
): Promise<T> {
    return JSON.parse(await ask(path, query, signal)) as T;
}

export interface Service {
    service: string;
    last_ns: string;
}

export interface Lines {
    type: string;
    unit: string;
    from_ns: string;
    step_ns: string;
    steps: number;
    lines: { name: string; sum: number; values: number[] }[];
}

export interface Measure {
    before: number;
    after: number;
    change: number;
    margin: number | null;
    is_significant: boolean;
}

export interface Changes {
    type: string;
    unit: string;
    per: "second" | "request" | "";
    before: { requests: number };
    after: { requests: number };
    whole: Measure;
    rows: { name: string; file: string; self: Measure; total: Measure }[];
}

export interface Cost {
    name: string;
    file: string;
    line: number;
    self: number;
    total: number;
}

export interface Top {
    type: string;
    unit: string;
    total: number;
    seconds: number;
    rows: Cost[];
}

export interface Calls {
    edges: [
        caller: string,
        callerFile: string,
        callee: string,
        calleeFile: string,
        value: number,
    ][];
}

export interface Profiles {
    profiles: { profile: number; series: number; start_ns: string; end_ns: string }[];
    series: { series: number; labels: [name: string, value: string][] }[];
    has_more: boolean;
}

export interface Lanes {
    start_ns: string;
    duration_ns: number;
    names: string[];
    states: string[];
    lanes: {
        name: string;
        id: number;
        spans: [start: number, length: number, name: number, state: number][];
    }[];
}

export interface Pair {
    kind: "lock" | "gil";
    waiter: string;
    waiter_file: string;
    holder: string;
    holder_file: string;
    wait: number;
    count: number;
}

/** The parts of a window's document (docs/window.schema.json) that the page shows. */
export interface WindowDocument {
    identity?: Record<string, string | number>;
    window?: Record<string, number>;
    tick?: Record<string, number | string>;
    losses?: Record<string, number>;
    cost?: Record<string, number>;
    memory?: Record<string, number>;
    settings?: Record<string, string | number>;
    collectors?: Record<string, string>;
    leak_sites?: LeakSite[];
}

export interface LeakSite {
    function: string;
    file: string;
    line: number;
    caller?: string;
    live_bytes: number;
    growth_bytes_per_s: number;
    growth_standard_error?: number;
    confidence: number;
    windows: number;
    suspect: boolean;
}

export interface Windows {
    windows: { profile: number; document: WindowDocument }[];
    cost: {
        windows: number;
        cpu_ns: number;
        window_ns: number;
        share_of_a_core: number;
        most_bytes: number;
        lost: number;
    };
    has_more: boolean;
}
