import { describe, expect, test } from "vitest";
import type { Lanes, LeakSite } from "../api";
import { pictureOf } from "../callgraph";
import { firstSpan, lanesOf, spanAt, stepOf, within, zoomed } from "../lanes";
import { sumSites } from "../leaks";
import { newestOfEach } from "../processes";

describe("lanes", () => {
    const answer: Lanes = {
        start_ns: "0",
        duration_ns: 1000,
        names: ["f", "g"],
        states: ["sleep", "on-cpu"],
        lanes: [
            { name: "idle", id: 1, spans: [[0, 1000, 0, 0]] },
            {
                name: "busy",
                id: 2,
                spans: [
                    [0, 100, 0, 0],
                    [100, 50, 1, 1],
                    [400, 100, 0, 1],
                ],
            },
            { name: "", id: 0, spans: [[0, 1, 0, 0]] },
        ],
    };

    test("the busiest stands first; without a name is no task", () => {
        expect(lanesOf(answer, false).map((lane) => lane.name)).toEqual(["busy", "", "idle"]);
        expect(lanesOf(answer, true).map((lane) => lane.name)).toEqual(["busy", "idle"]);
        expect(lanesOf(answer, false)[0]!.busy).toBe(150);
    });

    test("what is at a moment, and near it", () => {
        const [busy] = lanesOf(answer, true);
        expect(firstSpan(busy!, 0)).toBe(0);
        expect(firstSpan(busy!, 100)).toBe(1);
        expect(firstSpan(busy!, 2000)).toBe(3);
        expect(spanAt(busy!, 120, 1)).toBe(1);
        expect(spanAt(busy!, 300, 1)).toBe(-1);
        expect(spanAt(busy!, 395, 10)).toBe(2);
        expect(spanAt(busy!, 155, 10)).toBe(1);
    });

    test("zooming keeps the moment in its place, and stays in the window", () => {
        expect(zoomed([0, 100000], 100000, 50000, 0.5)).toEqual([25000, 75000]);
        expect(zoomed([0, 100000], 100000, 0, 0.5)).toEqual([0, 50000]);
        expect(zoomed([25000, 75000], 100000, 30000, 10)).toEqual([0, 100000]);
        expect(within([-50, 50], 1000)).toEqual([0, 100]);
        expect(within([950, 1050], 1000)).toEqual([900, 1000]);
        expect(stepOf(1e9, 10)).toBe(1e8);
        expect(stepOf(3e9, 10)).toBe(5e8);
    });
});

const SITE: LeakSite = {
    function: "f",
    file: "a.py",
    line: 1,
    live_bytes: 10,
    growth_bytes_per_s: 2,
    confidence: 0.5,
    windows: 12,
    suspect: false,
};

test("leak sites add up over processes, suspects first", () => {
    const other = { ...SITE, line: 2, live_bytes: 1000, growth_bytes_per_s: 50 };
    const sums = sumSites([[SITE, other], [{ ...SITE, suspect: true, confidence: 0.9 }], [other]]);
    expect(sums.map(({ line, live_bytes, processes }) => [line, live_bytes, processes])).toEqual([
        [1, 20, 2],
        [2, 2000, 2],
    ]);
    expect(sums[0]).toMatchObject({ suspect: true, confidence: 0.9, growth_bytes_per_s: 4 });
});

test("the newest window of each process", () => {
    const window = (runtime: string, end: number, profile: number) => ({
        profile,
        document: { identity: { runtime_id: runtime }, window: { end_ns: end } },
    });
    const found = newestOfEach([window("a", 1, 1), window("b", 9, 2), window("a", 3, 3)]);
    expect(found.map((item) => [item.profile, item.windows.length])).toEqual([
        [3, 2],
        [2, 1],
    ]);
});

test("a call graph of what weighs most, names as text", () => {
    const row = (name: string, total: number) => ({ name, file: "", line: 0, self: total, total });
    const { graph, names, hidden } = pictureOf(
        {
            type: "cpu-time",
            unit: "count",
            total: 1000,
            seconds: 1,
            rows: [row("a\\N", 1000), row("b", 500), row("tiny", 1)],
        },
        {
            edges: [
                ["a\\N", "", "b", "", 500],
                ["b", "", "tiny", "", 1],
                ["b", "", "b", "", 2],
            ],
        },
    );
    expect([...names.values()]).toEqual(["a\\N", "b"]);
    expect(hidden).toBe(1);
    expect(graph.nodes![0]!.attributes!.label).toMatch(/^a\\\\N\n/);
    expect(graph.edges).toHaveLength(1);
});
