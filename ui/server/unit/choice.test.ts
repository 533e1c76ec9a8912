import { describe, expect, test } from "vitest";
import { argumentsOf, comparisonOf, decodeChoice, encodeChoice, rangeOf, START } from "../choice";

describe("the choice in the address", () => {
    test("goes there and back", () => {
        const choice = {
            ...START,
            service: "shop & co",
            range: "100-200",
            version: "1.2",
            where: ["thread name=~w.*", "state!=io"],
            view: "changes" as const,
            against: "version:1.1",
            per: "request" as const,
            type: "wall-time",
            split: "thread name",
            profile: "12",
            lanes: "tasks" as const,
        };
        expect(decodeChoice(encodeChoice(choice))).toEqual(choice);
        expect(decodeChoice("?view=nonsense&per=day&lanes=x").view).toBe("graph");
        expect(decodeChoice("?view=nonsense&per=day&lanes=x")).toEqual(START);
        expect(encodeChoice(START)).toBe("");
    });

    test("what is no range is the last hour", () => {
        expect(rangeOf("6h", 100000)).toEqual([78400, 100000]);
        expect(rangeOf("200-100", 100000)).toEqual([96400, 100000]);
        expect(rangeOf("100-200", 100000)).toEqual([100, 200]);
        expect(rangeOf("<script>", 100000)).toEqual([96400, 100000]);
    });

    test("questions carry all filters", () => {
        const choice = { ...START, service: "a", host: "h", where: ["x=1", "y=2"] };
        expect(argumentsOf(choice, 7200).toString()).toBe(
            "from=3600&until=7200&service=a&host=h&where=x%3D1&where=y%3D2",
        );
    });

    test("a comparison with the time before, another day, another version", () => {
        const choice = { ...START, service: "a", version: "2" };
        const before = comparisonOf(choice, 7200);
        expect(before.get("before_from")).toBe("0");
        expect(before.get("before_until")).toBe("3600");
        expect(before.get("before_version")).toBe("2");
        const day = comparisonOf({ ...choice, against: "24h" }, 100000);
        expect(day.get("before_until")).toBe("13600");
        const version = comparisonOf({ ...choice, against: "version:1" }, 7200);
        expect(version.get("before_version")).toBe("1");
        expect(version.get("before_from")).toBe("3600");
        expect(version.get("version")).toBe("2");
    });
});
