import { describe, expect, it } from "vitest";
import { parseProfile, ProfileError, type ProfileDocument } from "../profile";
import { sampleDocument } from "./sample";

const parse = (document: unknown) => parseProfile(JSON.stringify(document));

describe("parseProfile", () => {
    it("flattens a good document", () => {
        const profile = parse(sampleDocument());
        expect(profile.functions[2]).toEqual({
            name: "parse",
            file: "/x/site-packages/lib/parse.py",
            line: 20,
        });
        expect([...profile.stackParent]).toEqual([-1, 0, 1, 0, 1, 4, -1, 6]);
        expect([...profile.values[0]!]).toEqual([30, 20, 40, 8, 2]);
        expect([...profile.sampleState]).toEqual([0, 0, 1, 2, -1]);
        expect(profile.startNs).toBe(1753000000000000000n);
        expect(profile.rows).toEqual([["interval", "10 ms"]]);
    });

    it("does without rows", () => {
        const { rows: _rows, ...rest } = sampleDocument();
        expect(parse(rest).rows).toEqual([]);
    });

    it("knows the empty page", () => {
        expect(() => parseProfile("/*PROFILE*/null")).toThrow(/empty page/);
    });

    it("refuses every prefix of a document", () => {
        const text = JSON.stringify(sampleDocument());
        for (let length = 0; length < text.length; length += 7) {
            expect(() => parseProfile(text.slice(0, length))).toThrow(ProfileError);
        }
    });

    const broken: [string, (document: ProfileDocument) => void, RegExp][] = [
        [
            "stack refers to itself",
            (d) => {
                d.stacks[1] = [1, 1];
            },
            /stacks\[1\]\[0\]/,
        ],
        [
            "stack refers forward",
            (d) => {
                d.stacks[1] = [5, 1];
            },
            /stacks\[1\]\[0\]/,
        ],
        [
            "frame out of range",
            (d) => {
                d.stacks[0] = [-1, 6];
            },
            /stacks\[0\]\[1\]/,
        ],
        [
            "function out of range",
            (d) => {
                d.frames[0] = [5, 1];
            },
            /frames\[0\]\[0\]/,
        ],
        [
            "name out of range",
            (d) => {
                d.functions[0] = [99, 0, 1];
            },
            /functions\[0\]\[0\]/,
        ],
        [
            "sample of no stack",
            (d) => {
                d.samples[0]![0] = 8;
            },
            /samples\[0\]\[0\]/,
        ],
        [
            "sample of no thread",
            (d) => {
                d.samples[0]![1] = 2;
            },
            /samples\[0\]\[1\]/,
        ],
        [
            "sample of no such state",
            (d) => {
                d.samples[0]![2] = 3;
            },
            /samples\[0\]\[2\]/,
        ],
        [
            "too few values",
            (d) => {
                d.samples[0]![3] = [1];
            },
            /samples\[0\]\[3\]/,
        ],
        [
            "negative value",
            (d) => {
                d.samples[0]![3] = [-1, 0];
            },
            /samples\[0\]\[3\]\[0\]/,
        ],
        [
            "text for a value",
            (d) => {
                (d.samples[0]![3] as unknown[])[0] = "1";
            },
            /samples\[0\]\[3\]\[0\]/,
        ],
        [
            "fraction for an index",
            (d) => {
                d.samples[0]![0] = 0.5;
            },
            /samples\[0\]\[0\]/,
        ],
        [
            "no default",
            (d) => {
                d.default = 2;
            },
            /default/,
        ],
        [
            "no types",
            (d) => {
                d.types = [];
            },
            /no sample type/,
        ],
        [
            "no list",
            (d) => {
                delete (d as Partial<ProfileDocument>).stacks;
            },
            /stacks/,
        ],
        [
            "start is no time",
            (d) => {
                d.start_ns = "yesterday";
            },
            /start_ns/,
        ],
        [
            "a note is no text",
            (d) => {
                (d.notes as unknown[])[0] = 1;
            },
            /notes\[0\]/,
        ],
    ];
    it.each(broken)("refuses: %s", (_name, breakIt, message) => {
        const document = sampleDocument();
        breakIt(document);
        expect(() => parse(document)).toThrow(ProfileError);
        expect(() => parse(document)).toThrow(message);
    });

    it.each([[[]], [1], ["text"], [{}], [true]])("refuses what is no document: %j", (value) => {
        expect(() => parse(value)).toThrow(ProfileError);
    });
});
