import { describe, expect, it } from "vitest";
import { weigh, type Filter } from "../filter";
import { parseProfile } from "../profile";
import { matchedTotal, search } from "../search";
import { makeSymbols } from "../symbols";
import {
    callTree,
    invert,
    nodeAt,
    pathOf,
    sandwich,
    sumSymbols,
    TreeBuilder,
    type Tree,
} from "../tree";
import { IDLE, MAIN, PARSE, sampleDocument, SERVE, WORK } from "./sample";

const profile = parseProfile(JSON.stringify(sampleDocument()));
const functions = makeSymbols(profile, false);
const everything: Filter = { type: 0, threads: null, hiddenStates: new Set() };
const noParked: Filter = { ...everything, hiddenStates: new Set(["parked"]) };
const treeOf = (filter: Filter): Tree =>
    callTree(profile, functions, weigh(profile, filter).ofStack);

/** "name total/self" in drawing order, indented by depth. */
function print(tree: Tree, names = functions.name): string[] {
    return Array.from(
        { length: tree.count },
        (_, i) =>
            `${" ".repeat(tree.depth[i]!)}${tree.symbol[i]! < 0 ? "all" : names[tree.symbol[i]!]} ${tree.total[i]}/${tree.self[i]}`,
    );
}

/** What must hold for every tree. */
function checkShape(tree: Tree): void {
    for (let i = 0; i < tree.count; i++) {
        let children = 0;
        let edge = tree.start[i]!;
        let before = Infinity;
        for (let child = i + 1; child < tree.end[i]!; child = tree.end[child]!) {
            expect(tree.parent[child]).toBe(i);
            expect(tree.depth[child]).toBe(tree.depth[i]! + 1);
            expect(tree.start[child]).toBe(edge);
            expect(tree.total[child]).toBeLessThanOrEqual(before);
            before = tree.total[child]!;
            edge += tree.total[child]!;
            children += tree.total[child]!;
        }
        expect(tree.total[i]).toBe(children + tree.self[i]!);
        expect(tree.total[i]).toBeGreaterThan(0);
    }
}

describe("weigh", () => {
    it("adds up all samples", () => {
        const weights = weigh(profile, everything);
        expect(weights.total).toBe(100);
        expect(weights.unfiltered).toBe(100);
        expect([...weights.ofStack]).toEqual([0, 20, 30, 40, 0, 8, 0, 2]);
        expect([...weights.ofThread]).toEqual([90, 10]);
        expect([...weights.ofState]).toEqual([50, 40, 8, 2]);
    });

    it("leaves out a state, and still tells what it would add", () => {
        const weights = weigh(profile, noParked);
        expect(weights.total).toBe(60);
        expect(weights.unfiltered).toBe(100);
        expect([...weights.ofThread]).toEqual([50, 10]);
        expect([...weights.ofState]).toEqual([50, 40, 8, 2]);
    });

    it("takes chosen threads, and samples without a state", () => {
        const one = weigh(profile, { ...everything, threads: new Set([1]) });
        expect(one.total).toBe(10);
        expect([...one.ofThread]).toEqual([90, 10]);
        expect([...one.ofState]).toEqual([0, 0, 8, 2]);
        expect(weigh(profile, { ...everything, hiddenStates: new Set([""]) }).total).toBe(98);
        expect(weigh(profile, { ...everything, threads: new Set() }).total).toBe(0);
    });

    it("takes each type by itself", () => {
        expect(weigh(profile, { ...everything, type: 1 }).total).toBe(5);
    });
});

describe("callTree", () => {
    it("merges lines of a function, orders by weight, adds up", () => {
        const tree = treeOf(everything);
        expect(print(tree)).toEqual([
            "all 100/0",
            " main 98/0",
            "  work 58/20",
            "   parse 30/30",
            "   work 8/0",
            "    parse 8/8",
            "  idle 40/40",
            " serve 2/0",
            "  parse 2/2",
        ]);
        expect(tree.maxDepth).toBe(4);
        checkShape(tree);
    });

    it("has totals under a filter, and no empty boxes", () => {
        const tree = treeOf(noParked);
        expect(print(tree)).toEqual([
            "all 60/0",
            " main 58/0",
            "  work 58/20",
            "   parse 30/30",
            "   work 8/0",
            "    parse 8/8",
            " serve 2/0",
            "  parse 2/2",
        ]);
        checkShape(tree);
        expect(treeOf({ ...everything, threads: new Set() }).count).toBe(1);
    });

    it("tells lines apart when asked", () => {
        const lines = makeSymbols(profile, true);
        const tree = callTree(profile, lines, weigh(profile, everything).ofStack);
        expect(lines.count).toBe(6);
        expect(lines.line[1]).toBe(11);
        expect(lines.line[2]).toBe(12);
        expect(print(tree, lines.name)).toEqual(print(treeOf(everything)));
        expect(tree.symbol[2]).toBe(1);
        expect(tree.symbol[4]).toBe(2);
    });
});

describe("invert", () => {
    it("has the same total and each function's self as its top box", () => {
        const tree = invert(treeOf(everything), functions.count);
        expect(print(tree)).toEqual([
            "all 100/0",
            " parse 40/0",
            "  work 38/0",
            "   main 30/30",
            "   work 8/0",
            "    main 8/8",
            "  serve 2/2",
            " idle 40/0",
            "  main 40/40",
            " work 20/0",
            "  main 20/20",
        ]);
        checkShape(tree);
    });
});

describe("sandwich", () => {
    it("counts the outermost call in recursion, on both sides", () => {
        const { callers, callees } = sandwich(treeOf(everything), WORK, functions.count);
        expect(print(callers)).toEqual(["work 58/0", " main 58/58"]);
        expect(print(callees)).toEqual(["work 58/20", " parse 30/30", " work 8/0", "  parse 8/8"]);
        checkShape(callers);
        checkShape(callees);
    });

    it("joins several callers", () => {
        const { callers, callees } = sandwich(treeOf(everything), PARSE, functions.count);
        expect(print(callers)).toEqual([
            "parse 40/0",
            " work 38/0",
            "  main 30/30",
            "  work 8/0",
            "   main 8/8",
            " serve 2/2",
        ]);
        expect(print(callees)).toEqual(["parse 40/40"]);
    });

    it("has a root function without callers", () => {
        expect(print(sandwich(treeOf(everything), SERVE, functions.count).callers)).toEqual([
            "serve 2/2",
        ]);
    });
});

describe("sumSymbols", () => {
    it("counts a recursive function's total once a stack", () => {
        const sums = sumSymbols(treeOf(everything), functions.count);
        expect([...sums.total]).toEqual([98, 58, 40, 40, 2]);
        expect([...sums.self]).toEqual([0, 20, 40, 40, 0]);
        expect(sums.self.reduce((a, b) => a + b)).toBe(100);
    });
});

describe("search", () => {
    const matched = (query: string): number => {
        const found = search(functions, query);
        const tree = treeOf(everything);
        const total = matchedTotal(tree, found.matched!);
        expect(matchedTotal(invert(tree, functions.count), found.matched!)).toBe(total);
        return total;
    };

    it("counts each stack with a match once, in either direction", () => {
        expect(matched("work")).toBe(58);
        expect(matched("parse")).toBe(40);
        expect(matched("work|parse")).toBe(60);
        expect(matched("^(main|serve)$")).toBe(100);
        expect(matched("nothing")).toBe(0);
    });

    it("looks at files, and minds case only if asked", () => {
        expect(matched("site-packages")).toBe(40);
        expect(matched("work\\.py:10$")).toBe(58);
        expect(search(functions, "Work").count).toBe(0);
        expect(search(functions, "wORK").count).toBe(0);
    });

    it("takes groups", () => {
        expect(matched("in:lib")).toBe(40);
        expect(matched("in:native")).toBe(40);
        expect(matched("in:app/work.py")).toBe(58);
    });

    it("says what is wrong", () => {
        expect(search(functions, "(").error).toMatch(/not a regular expression/);
        expect(search(functions, "(").matched).toBeNull();
        expect(search(functions, "").matched).toBeNull();
    });

    it("is limited to a box", () => {
        const tree = treeOf(everything);
        const flags = search(functions, "parse").matched!;
        expect(matchedTotal(tree, flags, nodeAt(tree, [MAIN, WORK]))).toBe(38);
        expect(matchedTotal(tree, flags, nodeAt(tree, [MAIN, IDLE]))).toBe(0);
        expect(matchedTotal(tree, flags, nodeAt(tree, [SERVE]))).toBe(2);
    });
});

describe("paths", () => {
    it("lead back to every node", () => {
        const tree = treeOf(everything);
        for (let node = 0; node < tree.count; node++) {
            expect(nodeAt(tree, pathOf(tree, node))).toBe(node);
        }
    });

    it("end where the tree ends", () => {
        const tree = treeOf(noParked);
        expect(nodeAt(tree, [MAIN, IDLE])).toBe(nodeAt(tree, [MAIN]));
        expect(nodeAt(tree, [99, 1])).toBe(0);
    });
});

describe("at random", () => {
    it("keeps totals through inversion, sums and focus", () => {
        let seed = 1;
        const next = (end: number): number => {
            seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
            return Math.floor((seed / 2 ** 32) * end);
        };
        for (let round = 0; round < 30; round++) {
            const builder = new TreeBuilder(-1, 6);
            let whole = 0;
            for (let stack = 0; stack < 60; stack++) {
                let node = 0;
                for (let depth = next(9); depth >= 0; depth--) {
                    node = builder.child(node, next(6));
                }
                const value = next(50);
                whole += value;
                builder.add(node, value);
            }
            const tree = builder.finish();
            const inverted = invert(tree, 6);
            const sums = sumSymbols(tree, 6);
            checkShape(tree);
            checkShape(inverted);
            expect(tree.total[0]).toBe(whole);
            expect(inverted.total[0]).toBe(whole);
            for (let child = 1; child < inverted.count; child = inverted.end[child]!) {
                expect(inverted.total[child]).toBe(sums.self[inverted.symbol[child]!]);
            }
            for (let symbol = 0; symbol < 6; symbol++) {
                const { callers, callees } = sandwich(tree, symbol, 6);
                expect(callers.total[0]).toBe(sums.total[symbol]);
                expect(callees.total[0]).toBe(sums.total[symbol]);
                const flags = new Uint8Array(6);
                flags[symbol] = 1;
                expect(matchedTotal(tree, flags)).toBe(sums.total[symbol]);
                expect(matchedTotal(inverted, flags)).toBe(sums.total[symbol]);
            }
        }
    });
});
