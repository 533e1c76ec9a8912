// Geometry of the graph: which boxes are on screen and where, and which box is at a point. Pure:
// the same functions serve drawing, pointing and tests.
import type { Tree } from "./tree";

/** What is narrower is not drawn by itself, in pixels. */
export const MIN_WIDTH = 0.5;

/** The part of the tree's width that fills the graph, in the unit of the values. */
export interface Window {
    readonly from: number;
    readonly to: number;
}

export function windowOf(tree: Tree, node: number): Window {
    return { from: tree.start[node]!, to: tree.start[node]! + tree.total[node]! };
}

export interface Visitor {
    /** A box; x and width in pixels, cut to the graph's width. */
    box(node: number, x: number, width: number): void;
    /** Children of a node that are too narrow to draw, taken together. */
    rest(parent: number, x: number, width: number): void;
}

/**
 * Visits what is visible in rows firstRow..lastRow. Children come heaviest first: the first too
 * narrow ends them.
 */
export function visitVisible(
    tree: Tree,
    view: Window,
    pixels: number,
    firstRow: number,
    lastRow: number,
    visitor: Visitor,
): void {
    const scale = pixels / (view.to - view.from);
    if (!Number.isFinite(scale) || scale <= 0) {
        return;
    }
    for (let node = 0; node < tree.count;) {
        const left = (tree.start[node]! - view.from) * scale;
        const width = tree.total[node]! * scale;
        const parent = tree.parent[node]!;
        const x = Math.max(0, left);
        const shown = Math.min(pixels, left + width) - x;
        if (left >= pixels && parent >= 0) {
            node = tree.end[parent]!;
        } else if (width < MIN_WIDTH && parent >= 0) {
            const right =
                (tree.start[parent]! + tree.total[parent]! - tree.self[parent]! - view.from) *
                scale;
            if (tree.depth[node]! >= firstRow && right - left >= MIN_WIDTH) {
                visitor.rest(parent, x, Math.min(pixels, right) - x);
            }
            node = tree.end[parent]!;
        } else if (shown < MIN_WIDTH) {
            // Beside the window, or touching it by no more than an error of rounding.
            node = tree.end[node]!;
        } else {
            if (tree.depth[node]! >= firstRow) {
                visitor.box(node, x, shown);
            }
            node = tree.depth[node]! < lastRow ? node + 1 : tree.end[node]!;
        }
    }
}

/** The drawn box at a pixel of a row, or -1. */
export function nodeAtPoint(
    tree: Tree,
    view: Window,
    pixels: number,
    x: number,
    row: number,
): number {
    const scale = pixels / (view.to - view.from);
    const value = view.from + x / scale;
    let node = 0;
    while (tree.depth[node]! < row) {
        let child = node + 1;
        while (child < tree.end[node]! && value >= tree.start[child]! + tree.total[child]!) {
            child = tree.end[child]!;
        }
        if (child >= tree.end[node]! || tree.total[child]! * scale < MIN_WIDTH) {
            return -1;
        }
        node = child;
    }
    const inside = value >= tree.start[node]! && value < tree.start[node]! + tree.total[node]!;
    return row >= 0 && inside ? node : -1;
}

export type Direction = "caller" | "callee" | "previous" | "next";

/** Where an arrow key leads from a node; the node itself at an edge. */
export function neighbour(tree: Tree, node: number, direction: Direction): number {
    const parent = tree.parent[node]!;
    switch (direction) {
        case "caller":
            return parent >= 0 ? parent : node;
        case "callee":
            return node + 1 < tree.end[node]! ? node + 1 : node;
        case "next":
            return nextInRow(tree, node);
        case "previous": {
            let best = node;
            for (let i = node - 1; i > 0; i--) {
                if (tree.depth[i] === tree.depth[node]) {
                    best = i;
                    break;
                }
            }
            return best;
        }
    }
}

function nextInRow(tree: Tree, node: number): number {
    for (let i = tree.end[node]!; i < tree.count; i++) {
        if (tree.depth[i] === tree.depth[node]) {
            return i;
        }
    }
    return node;
}
