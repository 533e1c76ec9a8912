// Trees of boxes. Nodes are numbered in the order they are drawn (a parent, then its children
// from the heaviest on), so a subtree is the range [node, end[node]) and every walk is a loop
// without recursion.
import type { Profile } from "./profile";
import type { Symbols } from "./symbols";

export interface Tree {
    readonly count: number;
    /** -1 for the root of a whole profile. */
    readonly symbol: Int32Array;
    readonly parent: Int32Array;
    readonly depth: Int32Array;
    /** Index behind the node's last descendant. */
    readonly end: Int32Array;
    /** Left edge, in the unit of the values. */
    readonly start: Float64Array;
    readonly total: Float64Array;
    readonly self: Float64Array;
    readonly maxDepth: number;
}

/** Grows a tree by paths; equal symbols under one parent become one node. */
export class TreeBuilder {
    private readonly symbols: number[];
    private readonly parents: number[] = [-1];
    private readonly selves: number[] = [0];
    private readonly children = new Map<number, number>();
    private readonly stride: number;

    constructor(rootSymbol: number, symbolCount: number) {
        this.symbols = [rootSymbol];
        this.stride = symbolCount + 1;
    }

    /** The child of a node for a symbol, made when new. */
    child(parent: number, symbol: number): number {
        const key = parent * this.stride + symbol;
        let node = this.children.get(key);
        if (node === undefined) {
            node = this.symbols.length;
            this.children.set(key, node);
            this.symbols.push(symbol);
            this.parents.push(parent);
            this.selves.push(0);
        }
        return node;
    }

    add(node: number, value: number): void {
        this.selves[node]! += value;
    }

    /** Adds up, leaves out what has no value, orders and numbers. */
    finish(): Tree {
        const size = this.symbols.length;
        const totals = Float64Array.from(this.selves);
        for (let i = size - 1; i > 0; i--) {
            totals[this.parents[i]!]! += totals[i]!;
        }
        const firstChild = this.groupByParent(size);
        const byWeight = firstChild.order;
        for (let i = 0; i < size; i++) {
            const from = firstChild.begin[i]!;
            const to = firstChild.begin[i + 1]!;
            if (to - from > 1) {
                byWeight
                    .subarray(from, to)
                    .sort((a, b) => totals[b]! - totals[a]! || this.symbols[a]! - this.symbols[b]!);
            }
        }
        return this.number(totals, firstChild);
    }

    private groupByParent(size: number): { begin: Int32Array; order: Int32Array } {
        const begin = new Int32Array(size + 1);
        for (let i = 1; i < size; i++) {
            begin[this.parents[i]! + 1]! += 1;
        }
        for (let i = 0; i < size; i++) {
            begin[i + 1]! += begin[i]!;
        }
        const next = begin.slice();
        const order = new Int32Array(size > 0 ? size - 1 : 0);
        for (let i = 1; i < size; i++) {
            order[next[this.parents[i]!]!++] = i;
        }
        return { begin, order };
    }

    private number(totals: Float64Array, children: { begin: Int32Array; order: Int32Array }): Tree {
        let count = 1;
        for (let i = 1; i < totals.length; i++) {
            count += totals[i]! > 0 ? 1 : 0;
        }
        const tree = {
            count,
            symbol: new Int32Array(count),
            parent: new Int32Array(count),
            depth: new Int32Array(count),
            end: new Int32Array(count),
            start: new Float64Array(count),
            total: new Float64Array(count),
            self: new Float64Array(count),
            maxDepth: 0,
        };
        const pending = [0];
        const pendingParent = [-1];
        /** Where the next child of a numbered node begins. */
        const edge = new Float64Array(count);
        for (let at = 0; pending.length > 0; at++) {
            const node = pending.pop()!;
            const parent = pendingParent.pop()!;
            tree.symbol[at] = this.symbols[node]!;
            tree.parent[at] = parent;
            tree.total[at] = totals[node]!;
            tree.self[at] = this.selves[node]!;
            if (parent >= 0) {
                tree.depth[at] = tree.depth[parent]! + 1;
                tree.start[at] = edge[parent]!;
                edge[parent]! += totals[node]!;
                tree.maxDepth = Math.max(tree.maxDepth, tree.depth[at]!);
            }
            edge[at] = tree.start[at]!;
            for (let k = children.begin[node + 1]! - 1; k >= children.begin[node]!; k--) {
                const child = children.order[k]!;
                if (totals[child]! > 0) {
                    pending.push(child);
                    pendingParent.push(at);
                }
            }
        }
        for (let i = count - 1; i >= 0; i--) {
            tree.end[i] = Math.max(tree.end[i]!, i + 1);
            const parent = tree.parent[i]!;
            if (parent >= 0) {
                tree.end[parent] = Math.max(tree.end[parent]!, tree.end[i]!);
            }
        }
        return tree;
    }
}

/** Callers above callees: the tree of everything, from the threads' outermost frames down. */
export function callTree(profile: Profile, symbols: Symbols, ofStack: Float64Array): Tree {
    const size = ofStack.length;
    const used = new Uint8Array(size);
    for (let i = size - 1; i >= 0; i--) {
        if (used[i] || ofStack[i]! > 0) {
            used[i] = 1;
            const parent = profile.stackParent[i]!;
            if (parent >= 0) {
                used[parent] = 1;
            }
        }
    }
    const builder = new TreeBuilder(-1, symbols.count);
    const nodeOf = new Int32Array(size);
    for (let i = 0; i < size; i++) {
        if (used[i]) {
            const parent = profile.stackParent[i]!;
            const symbol = symbols.ofFrame[profile.stackFrame[i]!]!;
            nodeOf[i] = builder.child(parent < 0 ? 0 : nodeOf[parent]!, symbol);
            builder.add(nodeOf[i]!, ofStack[i]!);
        }
    }
    return builder.finish();
}

/** Leaves at the root: below each function that used the value itself, who called it. */
export function invert(tree: Tree, symbolCount: number): Tree {
    const builder = new TreeBuilder(-1, symbolCount);
    for (let i = 1; i < tree.count; i++) {
        if (tree.self[i]! > 0) {
            builder.add(addCallers(builder, 0, tree, i), tree.self[i]!);
        }
    }
    return builder.finish();
}

/** Adds a node and its callers, up to but without the root of everything; the last node added. */
function addCallers(builder: TreeBuilder, under: number, tree: Tree, from: number): number {
    let node = under;
    for (let at = from; at > 0; at = tree.parent[at]!) {
        node = builder.child(node, tree.symbol[at]!);
    }
    return node;
}

export interface Sandwich {
    /** Rooted at the function; children are its callers. */
    readonly callers: Tree;
    /** Rooted at the function; children are what it calls. */
    readonly callees: Tree;
}

/**
 * Callers and callees of one function. In recursion the outermost call counts, so both totals are
 * its total.
 */
export function sandwich(tree: Tree, symbol: number, symbolCount: number): Sandwich {
    const callers = new TreeBuilder(symbol, symbolCount);
    const callees = new TreeBuilder(symbol, symbolCount);
    const nodeOf = new Int32Array(tree.count);
    for (let i = 1; i < tree.count;) {
        if (tree.symbol[i] !== symbol) {
            i++;
            continue;
        }
        callers.add(addCallers(callers, 0, tree, tree.parent[i]!), tree.total[i]!);
        callees.add(0, tree.self[i]!);
        for (let k = i + 1; k < tree.end[i]!; k++) {
            const parent = tree.parent[k]!;
            nodeOf[k] = callees.child(parent === i ? 0 : nodeOf[parent]!, tree.symbol[k]!);
            callees.add(nodeOf[k]!, tree.self[k]!);
        }
        i = tree.end[i]!;
    }
    return { callers: callers.finish(), callees: callees.finish() };
}

/** Total and self of each symbol; a recursive function's total counts each stack once. */
export interface Sums {
    readonly total: Float64Array;
    readonly self: Float64Array;
}

export function sumSymbols(tree: Tree, symbolCount: number): Sums {
    const total = new Float64Array(symbolCount);
    const self = new Float64Array(symbolCount);
    const open = new Int32Array(symbolCount);
    const path: number[] = [];
    for (let i = 1; i < tree.count; i++) {
        while (path.length > 0 && tree.end[path[path.length - 1]!]! <= i) {
            open[tree.symbol[path.pop()!]!]! -= 1;
        }
        const symbol = tree.symbol[i]!;
        self[symbol]! += tree.self[i]!;
        if (open[symbol] === 0) {
            total[symbol]! += tree.total[i]!;
        }
        open[symbol]! += 1;
        path.push(i);
    }
    return { total, self };
}

/**
 * Symbols from below the root to a node: the address of a node that survives a change of filter.
 */
export function pathOf(tree: Tree, node: number): number[] {
    const path: number[] = [];
    for (let at = node; at > 0; at = tree.parent[at]!) {
        path.push(tree.symbol[at]!);
    }
    return path.reverse();
}

/** The node at a path, or the last one on the way that exists. */
export function nodeAt(tree: Tree, path: readonly number[]): number {
    let node = 0;
    for (const symbol of path) {
        let child = node + 1;
        while (child < tree.end[node]! && tree.symbol[child] !== symbol) {
            child = tree.end[child]!;
        }
        if (child >= tree.end[node]!) {
            break;
        }
        node = child;
    }
    return node;
}
