// What is shown, apart from the data: kept in the URL's fragment, so that a view can be shared
// and the browser's back button works. Only what differs from the default is written.
import type { Profile } from "./profile";

export interface View {
    readonly type: number;
    readonly query: string;
    readonly inverted: boolean;
    readonly byLine: boolean;
    /** Symbol whose callers and callees are shown; -1 for the whole graph. */
    readonly focus: number;
    /** Path of symbols to the zoomed box. */
    readonly zoom: readonly number[];
    readonly threads: ReadonlySet<number> | null;
    readonly hiddenStates: ReadonlySet<string>;
}

export const PARKED = "parked";

export function defaultView(profile: Profile): View {
    return {
        type: profile.defaultType,
        query: "",
        inverted: false,
        byLine: false,
        focus: -1,
        zoom: [],
        threads: null,
        hiddenStates: new Set([PARKED]),
    };
}

function sameSet(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
    return a.size === b.size && [...a].every((item) => b.has(item));
}

/** Names of the states in the order of Weights.ofState. */
export function stateNames(profile: Profile): string[] {
    return [...profile.states, ""];
}

export function encodeView(view: View, profile: Profile): string {
    const normal = defaultView(profile);
    const parts = new URLSearchParams();
    if (view.type !== normal.type) {
        parts.set("type", profile.types[view.type]!.type);
    }
    if (view.query !== "") {
        parts.set("q", view.query);
    }
    if (view.inverted) {
        parts.set("inverted", "1");
    }
    if (view.byLine) {
        parts.set("lines", "1");
    }
    if (view.focus >= 0) {
        parts.set("focus", String(view.focus));
    }
    if (view.zoom.length > 0) {
        parts.set("zoom", view.zoom.join("."));
    }
    if (view.threads !== null) {
        parts.set("threads", [...view.threads].sort((a, b) => a - b).join("."));
    }
    if (!sameSet(view.hiddenStates, normal.hiddenStates)) {
        const hidden = stateNames(profile).flatMap((name, i) =>
            view.hiddenStates.has(name) ? [i] : [],
        );
        parts.set("hide", hidden.join("."));
    }
    return parts.toString();
}

function indexes(text: string | null, end: number): number[] {
    return (text ?? "")
        .split(".")
        .filter((part) => /^\d{1,9}$/.test(part))
        .map(Number)
        .filter((i) => i < end);
}

/** Reads a fragment; what it does not say, or says wrong, is the default. */
export function decodeView(fragment: string, profile: Profile): View {
    const normal = defaultView(profile);
    const parts = new URLSearchParams(fragment.replace(/^#/, ""));
    const type = profile.types.findIndex((item) => item.type === parts.get("type"));
    const hide = parts.get("hide");
    const threads = parts.get("threads");
    const states = stateNames(profile);
    const hidden = new Set(indexes(hide, states.length).map((i) => states[i]!));
    return {
        type: type >= 0 ? type : normal.type,
        query: parts.get("q") ?? "",
        inverted: parts.get("inverted") === "1",
        byLine: parts.get("lines") === "1",
        focus: indexes(parts.get("focus"), Infinity)[0] ?? -1,
        zoom: indexes(parts.get("zoom"), Infinity),
        threads: threads === null ? null : new Set(indexes(threads, profile.threads.length)),
        hiddenStates: hide === null ? normal.hiddenStates : hidden,
    };
}

/** A set with an item put in, or taken out if it was in. */
export function toggled<T>(set: ReadonlySet<T>, item: T): Set<T> {
    const next = new Set(set);
    if (!next.delete(item)) {
        next.add(item);
    }
    return next;
}
