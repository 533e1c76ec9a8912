// Processes, as the documents of their windows tell them apart.
import type { WindowDocument, Windows } from "./api";

export interface Process {
    readonly document: WindowDocument;
    readonly profile: number;
    /** All its windows in the answer. */
    readonly windows: readonly WindowDocument[];
}

/** The newest window of each process, and its others; the busiest sender first. */
export function newestOfEach(windows: Windows["windows"]): Process[] {
    const found = new Map<string, { newest: Windows["windows"][number]; all: WindowDocument[] }>();
    for (const item of windows) {
        const { identity, window } = item.document;
        const key = String(identity?.runtime_id ?? `${identity?.host} ${identity?.pid}`);
        const old = found.get(key);
        if (!old) {
            found.set(key, { newest: item, all: [item.document] });
            continue;
        }
        old.all.push(item.document);
        if ((window?.end_ns ?? 0) > (old.newest.document.window?.end_ns ?? 0)) {
            old.newest = item;
        }
    }
    return [...found.values()].map(({ newest, all }) => ({
        document: newest.document,
        profile: newest.profile,
        windows: all,
    }));
}

export function nameOf(document: WindowDocument): string {
    const { host, pid } = document.identity ?? {};
    return `pid ${pid ?? "?"}${host === undefined ? "" : ` on ${host}`}`;
}
