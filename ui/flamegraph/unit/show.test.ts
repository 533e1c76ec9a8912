// What people see: numbers as text, colours, geometry, the URL's fragment, the table's order.
import { describe, expect, it } from "vitest";
import { colorOf, hashText, oklch } from "../color";
import { rowAt, rowTop, ROW } from "../draw";
import { formatPercent, formatValue } from "../format";
import { neighbour, nodeAtPoint, visitVisible, windowOf } from "../layout";
import { parseProfile } from "../profile";
import { originOf, shortFiles, type Kind } from "../symbols";
import { orderSymbols } from "../table";
import { TreeBuilder, type Tree } from "../tree";
import { decodeView, defaultView, encodeView, type View } from "../view";
import { makeSymbols } from "../symbols";
import { sampleDocument } from "./sample";

describe("formatValue", () => {
    it.each([
        [0, "nanoseconds", "0"],
        [0.4, "nanoseconds", "0.400 ns"],
        [1, "nanoseconds", "1 ns"],
        [1500, "nanoseconds", "1.500 µs"],
        [2_000_000, "nanoseconds", "2 ms"],
        [12_345_678_901, "nanoseconds", "12.35 s"],
        [599.9e9, "nanoseconds", "599.9 s"],
        [754e9, "nanoseconds", "12 min 34 s"],
        [7199.7e9, "nanoseconds", "2 h 0 min"],
        [3600e9 * 5 + 61e9, "nanoseconds", "5 h 1 min"],
        [0, "bytes", "0"],
        [512, "bytes", "512 B"],
        [1536, "bytes", "1.500 KiB"],
        [5 * 2 ** 20, "bytes", "5 MiB"],
        [1.25 * 2 ** 40, "bytes", "1.250 TiB"],
        [7, "count", "7"],
        [12_345, "count", "12\u202f345"],
        [1_500_000, "count", "1.500 M"],
        [0.25, "count", "0.250"],
        [3, "widgets", "3 widgets"],
        [3.5, "", "3.500"],
    ])("%d %s", (value, unit, text) => {
        expect(formatValue(value, unit).replaceAll("\u00a0", " ")).toBe(text);
    });
});

describe("formatPercent", () => {
    it.each([
        [0, 5, "0%"],
        [5, 5, "100%"],
        [1, 3, "33.3%"],
        [1, 30, "3.33%"],
        [1, 1e6, "<0.01%"],
        [99_999, 100_000, ">99.9%"],
        [0, 0, "–"],
        [99.9, 100, "99.9%"],
    ])("%d of %d", (value, whole, text) => {
        expect(formatPercent(value, whole)).toBe(text);
    });
});

describe("originOf", () => {
    it.each<[string, string, Kind, string]>([
        ["/srv/shop/app/orders.py", "get", "application", "app/orders.py"],
        ["/srv/.venv/lib/python3.11/site-packages/flask/app.py", "run", "package", "flask"],
        ["/srv/.venv/lib/python3.11/site-packages/six.py", "run", "package", "six"],
        ["/usr/lib/python3/dist-packages/yaml/loader.py", "load", "package", "yaml"],
        ["/usr/lib/python3.11/json/encoder.py", "encode", "stdlib", "json"],
        ["/opt/python/lib/python3.13t/threading.py", "run", "stdlib", "threading"],
        ["<frozen importlib._bootstrap>", "_load", "stdlib", "importlib"],
        ["<native>", "zlib.compress", "native", "native code"],
        ["", "<12 frames omitted>", "synthetic", "not code"],
        ["", "<short-lived threads>", "synthetic", "not code"],
        ["<string>", "<module>", "application", "<string>"],
        ["", "f", "application", "unknown file"],
        ["C:\\app\\x.py", "f", "application", "app/x.py"],
    ])("%s %s", (file, name, kind, origin) => {
        expect(originOf(file, name)).toEqual({ kind, origin });
    });
});

describe("shortFiles", () => {
    it("cuts what is shared, and what is before a package", () => {
        expect(
            shortFiles(
                [
                    "/srv/shop/a/x.py",
                    "/srv/shop/b/y.py",
                    "/v/lib/python3.11/site-packages/flask/app.py",
                    "/usr/lib/python3.11/json/encoder.py",
                    "<native>",
                    "<string>",
                ],
                ["application", "application", "package", "stdlib", "native", "application"],
            ),
        ).toEqual(["a/x.py", "b/y.py", "flask/app.py", "json/encoder.py", "<native>", "<string>"]);
        expect(shortFiles(["/srv/x.py"], ["application"])).toEqual(["x.py"]);
    });
});

/** Contrast ratio of two colours, as WCAG defines it. */
function contrast(a: string, b: string): number {
    const luminance = (color: string): number => {
        const [r, g, blue] = [1, 3, 5].map((at) => {
            const value = parseInt(color.slice(at, at + 2), 16) / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r! + 0.7152 * g! + 0.0722 * blue!;
    };
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high! + 0.05) / (low! + 0.05);
}

describe("colours", () => {
    it("convert exactly", () => {
        expect(oklch(1, 0, 0)).toBe("#ffffff");
        expect(oklch(0, 0, 0)).toBe("#000000");
        expect(oklch(0.627966, 0.257704, 29.2346)).toBe("#ff0000");
    });

    it("hash as FNV-1a with a final mix, computed elsewhere", () => {
        expect(hashText("flask")).toBe(959278138);
        expect(hashText("flask")).not.toBe(hashText("flasl"));
    });

    it("differ by group and are legible in both themes", () => {
        const kinds: Kind[] = ["application", "package", "stdlib", "native", "synthetic"];
        const seen = new Set<string>();
        for (const kind of kinds) {
            for (let i = 0; i < 60; i++) {
                expect(contrast(colorOf(kind, `group ${i}`, false), "#1c1b1a")).toBeGreaterThan(7);
                expect(contrast(colorOf(kind, `group ${i}`, true), "#f4f2ef")).toBeGreaterThan(4.5);
                seen.add(colorOf(kind, `group ${i}`, false));
            }
        }
        expect(seen.size).toBeGreaterThan(100);
        expect(colorOf("package", "flask", false)).toBe(colorOf("package", "flask", false));
    });
});

/** all(100): a(60): b(50), c(9.9), d(0.1) — and e(40) */
function small(): Tree {
    const builder = new TreeBuilder(-1, 5);
    const a = builder.child(0, 0);
    builder.add(builder.child(a, 1), 50);
    builder.add(builder.child(a, 2), 9.875);
    builder.add(builder.child(a, 3), 0.125);
    builder.add(builder.child(0, 4), 40);
    return builder.finish();
}

function visible(
    tree: Tree,
    node: number,
    pixels: number,
    rows: [number, number] = [0, 9],
): string[] {
    const seen: string[] = [];
    visitVisible(tree, windowOf(tree, node), pixels, rows[0], rows[1], {
        box: (at, x, width) => seen.push(`${tree.symbol[at]}@${x}+${width}`),
        rest: (parent, x, width) => seen.push(`rest of ${tree.symbol[parent]}@${x}+${width}`),
    });
    return seen;
}

describe("visitVisible", () => {
    it("places boxes by their values", () => {
        expect(visible(small(), 0, 1000)).toEqual([
            "-1@0+1000",
            "0@0+600",
            "1@0+500",
            "2@500+98.75",
            "3@598.75+1.25",
            "4@600+400",
        ]);
    });

    it("takes together what is too narrow", () => {
        expect(visible(small(), 0, 100)).toEqual([
            "-1@0+100",
            "0@0+60",
            "1@0+50",
            "2@50+9.875",
            "4@60+40",
        ]);
        expect(visible(small(), 0, 4)).toEqual(["-1@0+4", "0@0+2.4", "1@0+2", "4@2.4+1.6"]);
        const builder = new TreeBuilder(-1, 101);
        for (let i = 0; i < 100; i++) {
            builder.add(builder.child(0, i), 1);
        }
        expect(visible(builder.finish(), 0, 40)).toEqual(["-1@0+40", "rest of -1@0+40"]);
    });

    it("shows a zoomed box and what is above it over the whole width", () => {
        const tree = small();
        expect(visible(tree, 5, 100)).toEqual(["-1@0+100", "4@0+100"]);
        expect(visible(tree, 1, 120)).toEqual(["-1@0+120", "0@0+120", "1@0+100", "2@100+19.75"]);
    });

    it("keeps to the rows on screen", () => {
        expect(visible(small(), 0, 1000, [1, 1])).toEqual(["0@0+600", "4@600+400"]);
    });

    it("draws nothing of nothing", () => {
        expect(visible(new TreeBuilder(-1, 1).finish(), 0, 100)).toEqual([]);
    });
});

describe("nodeAtPoint", () => {
    it("finds the box that is drawn there", () => {
        const tree = small();
        const view = windowOf(tree, 0);
        expect(nodeAtPoint(tree, view, 1000, 599, 1)).toBe(1);
        expect(nodeAtPoint(tree, view, 1000, 600, 1)).toBe(5);
        expect(nodeAtPoint(tree, view, 1000, 505, 2)).toBe(3);
        expect(nodeAtPoint(tree, view, 1000, 605, 2)).toBe(-1);
        expect(nodeAtPoint(tree, view, 100, 59.99, 2)).toBe(-1);
        expect(nodeAtPoint(tree, view, 1000, 5, -1)).toBe(-1);
        expect(nodeAtPoint(tree, view, 1000, 5, 7)).toBe(-1);
        expect(nodeAtPoint(tree, windowOf(tree, 5), 100, 1, 1)).toBe(5);
    });
});

describe("neighbour", () => {
    it("moves and stops at edges", () => {
        const tree = small();
        expect(neighbour(tree, 0, "callee")).toBe(1);
        expect(neighbour(tree, 1, "next")).toBe(5);
        expect(neighbour(tree, 5, "previous")).toBe(1);
        expect(neighbour(tree, 4, "next")).toBe(4);
        expect(neighbour(tree, 4, "caller")).toBe(1);
        expect(neighbour(tree, 5, "callee")).toBe(5);
        expect(neighbour(tree, 0, "caller")).toBe(0);
        expect(neighbour(tree, 2, "previous")).toBe(2);
    });
});

describe("rows", () => {
    it.each([
        [0, false],
        [35, false],
        [0, true],
        [35, true],
    ])("are found where they are drawn: scroll %d, flipped %s", (scroll, flipped) => {
        for (const height of [100, 400]) {
            for (let row = 0; row < 10; row++) {
                const top = rowTop(row, 10, height, scroll, flipped);
                expect(rowAt(top + 1, 10, height, scroll, flipped)).toBe(row);
                expect(rowAt(top + ROW - 1, 10, height, scroll, flipped)).toBe(row);
            }
        }
    });
});

describe("view", () => {
    const profile = parseProfile(JSON.stringify(sampleDocument()));
    const normal = defaultView(profile);

    it("is empty when it is the default", () => {
        expect(encodeView(normal, profile)).toBe("");
        expect(decodeView("", profile)).toEqual(normal);
    });

    it("comes back as it was", () => {
        const views: View[] = [
            {
                ...normal,
                type: 1,
                query: "a b&c=d|#+é",
                inverted: true,
                byLine: true,
                zoom: [0, 1, 2],
            },
            { ...normal, focus: 2, threads: new Set([1]), hiddenStates: new Set() },
            { ...normal, threads: new Set(), hiddenStates: new Set(["parked", ""]) },
            { ...normal, hiddenStates: new Set(["on-cpu"]) },
        ];
        for (const view of views) {
            expect(decodeView(`#${encodeView(view, profile)}`, profile)).toEqual(view);
        }
    });

    it("is the default where the fragment is wrong", () => {
        expect(decodeView("#type=nothing&zoom=x.y&focus=-3&inverted=2", profile)).toEqual(normal);
        expect(decodeView("#threads=7&hide=99", profile)).toEqual({
            ...normal,
            threads: new Set(),
            hiddenStates: new Set(),
        });
    });
});

describe("orderSymbols", () => {
    const symbols = makeSymbols(parseProfile(JSON.stringify(sampleDocument())), false);
    const sums = {
        total: Float64Array.of(98, 58, 40, 40, 0),
        self: Float64Array.of(0, 20, 40, 40, 0),
    };

    it("orders by each column, equal ones by name, without what has no value", () => {
        expect(orderSymbols(symbols, sums, null, { column: "self", descending: true })).toEqual([
            3, 2, 1, 0,
        ]);
        expect(orderSymbols(symbols, sums, null, { column: "total", descending: true })).toEqual([
            0, 1, 3, 2,
        ]);
        expect(orderSymbols(symbols, sums, null, { column: "name", descending: false })).toEqual([
            3, 0, 2, 1,
        ]);
        expect(
            orderSymbols(symbols, sums, Uint8Array.of(0, 1, 0, 1, 1), {
                column: "total",
                descending: false,
            }),
        ).toEqual([3, 1]);
    });
});
