// What a box of the graph stands for: a function, or a line of a function. Functions that the
// document lists twice (same name, file and first line) are one symbol, so that they merge into
// one box.
import type { Profile } from "./profile";

/** Where code comes from, which decides the family of its colour. */
export type Kind = "application" | "package" | "stdlib" | "native" | "synthetic";

export interface Symbols {
    readonly count: number;
    readonly name: readonly string[];
    readonly file: readonly string[];
    /** The current line in line mode, else the function's first line; 0 when unknown. */
    readonly line: readonly number[];
    readonly kind: readonly Kind[];
    /** Group for colour and legend: a package, a standard module, or an application file. */
    readonly origin: readonly string[];
    /** File as a person knows it: from the package's or the application's folder on. */
    readonly shortFile: readonly string[];
    readonly ofFrame: Int32Array;
}

export interface Origin {
    readonly kind: Kind;
    readonly origin: string;
}

/** Tells kind and group from a function's file and name. */
export function originOf(file: string, name: string): Origin {
    if (file === "<native>") {
        return { kind: "native", origin: "native code" };
    }
    if (/^<.*>$/.test(name) && (file === "" || name.endsWith(" frames omitted>"))) {
        return { kind: "synthetic", origin: "not code" };
    }
    const frozen = /^<frozen ([^.>]+)/.exec(file);
    if (frozen) {
        return { kind: "stdlib", origin: frozen[1]! };
    }
    const path = file.replaceAll("\\", "/");
    const site = /.*\/(?:site|dist)-packages\/([^/]+)/.exec(path);
    if (site) {
        return { kind: "package", origin: site[1]!.replace(/\.py$/, "") };
    }
    const standard = /\/lib(?:64)?\/python3(?:\.\d+)?t?\/(?:lib-dynload\/)?([^/]+)/.exec(path);
    if (standard) {
        return { kind: "stdlib", origin: standard[1]!.replace(/\.(py|pyc)$/, "") };
    }
    const parts = path.split("/").filter((part) => part !== "");
    return { kind: "application", origin: parts.slice(-2).join("/") || "unknown file" };
}

export function makeSymbols(profile: Profile, byLine: boolean): Symbols {
    const name: string[] = [];
    const file: string[] = [];
    const line: number[] = [];
    const kind: Kind[] = [];
    const origin: string[] = [];
    const known = new Map<string, number>();
    const intern = (functionIndex: number, currentLine: number): number => {
        const fn = profile.functions[functionIndex]!;
        const key = JSON.stringify([fn.name, fn.file, fn.line, currentLine]);
        let symbol = known.get(key);
        if (symbol === undefined) {
            symbol = name.length;
            known.set(key, symbol);
            name.push(fn.name);
            file.push(fn.file);
            line.push(currentLine || fn.line);
            const from = originOf(fn.file, fn.name);
            kind.push(from.kind);
            origin.push(from.origin);
        }
        return symbol;
    };
    const ofFunction = profile.functions.map((_fn, i) => (byLine ? -1 : intern(i, 0)));
    const ofFrame = profile.frameFunction.map((fn, i) =>
        byLine ? intern(fn, profile.frameLine[i]!) : ofFunction[fn]!,
    );
    return {
        count: name.length,
        name,
        file,
        line,
        kind,
        origin,
        shortFile: shortFiles(file, kind),
        ofFrame,
    };
}

/** Cuts what all application files share, and what stands before a package. */
export function shortFiles(file: readonly string[], kind: readonly Kind[]): string[] {
    const own = file.filter((name, i) => kind[i] === "application" && name.startsWith("/"));
    let shared = own[0]?.slice(0, own[0].lastIndexOf("/") + 1) ?? "";
    for (const name of own) {
        while (!name.startsWith(shared)) {
            shared = shared.slice(0, shared.lastIndexOf("/", shared.length - 2) + 1);
        }
    }
    return file.map((name, i) =>
        kind[i] === "application"
            ? name.startsWith(shared)
                ? name.slice(shared.length)
                : name
            : name.replace(/^.*\/(?:(?:site|dist)-packages|lib(?:64)?\/python3[^/]*)\//, ""),
    );
}

/** "file:line", "file", or "" for a synthetic frame. */
export function placeOf(symbols: Symbols, symbol: number): string {
    return withLine(symbols.file[symbol] ?? "", symbols.line[symbol] ?? 0);
}

export function shortPlaceOf(symbols: Symbols, symbol: number): string {
    return withLine(symbols.shortFile[symbol] ?? "", symbols.line[symbol] ?? 0);
}

function withLine(file: string, line: number): string {
    return file !== "" && line > 0 ? `${file}:${line}` : file;
}
