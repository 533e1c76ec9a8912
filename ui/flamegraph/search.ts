// Search: which symbols match, and how much of a tree lies under them.
import type { Symbols } from "./symbols";
import type { Tree } from "./tree";

export interface Search {
    /** One flag a symbol; null when there is no search or it is not valid. */
    readonly matched: Uint8Array | null;
    readonly count: number;
    readonly error: string;
}

const NOTHING: Search = { matched: null, count: 0, error: "" };

/**
 * A regular expression, without regard to case unless it has a capital, tried on the name and on
 * file:line; "in:NAME" takes a group of the legend as a whole.
 */
export function search(symbols: Symbols, query: string): Search {
    if (query === "") {
        return NOTHING;
    }
    let test: (symbol: number) => boolean;
    if (query.startsWith("in:")) {
        const origin = query.slice(3);
        test = (symbol) => symbols.origin[symbol] === origin || symbols.kind[symbol] === origin;
    } else {
        let pattern: RegExp;
        try {
            pattern = new RegExp(query, /\p{Lu}/u.test(query) ? "u" : "iu");
        } catch (error) {
            const why = error instanceof Error ? error.message : "";
            return { ...NOTHING, error: `not a regular expression: ${why.replace(/^.*: /, "")}` };
        }
        test = (symbol) =>
            pattern.test(symbols.name[symbol]!) ||
            pattern.test(`${symbols.file[symbol]!}:${symbols.line[symbol]!}`);
    }
    const matched = new Uint8Array(symbols.count);
    let count = 0;
    for (let symbol = 0; symbol < symbols.count; symbol++) {
        if (test(symbol)) {
            matched[symbol] = 1;
            count++;
        }
    }
    return { matched, count, error: "" };
}

/** Sum of the stacks below a node that have a match anywhere from the node on; each counts once. */
export function matchedTotal(tree: Tree, matched: Uint8Array, from = 0): number {
    let sum = 0;
    for (let i = from; i < tree.end[from]!;) {
        if (tree.symbol[i]! >= 0 && matched[tree.symbol[i]!]) {
            sum += tree.total[i]!;
            i = tree.end[i]!;
        } else {
            i++;
        }
    }
    return sum;
}
