// The lanes of a window as pixels: which spans are seen, where they lie, and what is at a point.
// Pure; timeline.tsx draws.
import type { Lanes } from "./api";

export const LANE = 20;
export const AXIS = 20;
export const NAMES = 190;

export interface Lane {
    readonly name: string;
    readonly id: number;
    readonly starts: Float64Array;
    readonly lengths: Float64Array;
    readonly functions: Int32Array;
    readonly states: Int32Array;
    /** Time in states that are no waiting. */
    readonly busy: number;
}

/** States in the order of the legend: what computes, what would, what waits. */
export const STATES = [
    "on-cpu",
    "runnable",
    "gil-wait",
    "lock-wait",
    "io",
    "sleep",
    "parked",
    "other",
] as const;
const BUSY = new Set(["on-cpu", "runnable", "gil-wait", "lock-wait"]);

/** Busiest first, which is what one looks for; lanes without a name are of what has no task. */
export function lanesOf(answer: Lanes, byTask: boolean): Lane[] {
    return answer.lanes
        .filter((lane) => !byTask || lane.name !== "")
        .map((lane) => {
            const { spans } = lane;
            const made = {
                name: lane.name,
                id: lane.id,
                starts: new Float64Array(spans.length),
                lengths: new Float64Array(spans.length),
                functions: new Int32Array(spans.length),
                states: new Int32Array(spans.length),
                busy: 0,
            };
            spans.forEach(([start, length, name, state], i) => {
                made.starts[i] = start;
                made.lengths[i] = length;
                made.functions[i] = name;
                made.states[i] = state;
                made.busy += BUSY.has(answer.states[state] ?? "") ? length : 0;
            });
            return made;
        })
        .sort((a, b) => b.busy - a.busy || (a.name < b.name ? -1 : 1));
}

/** The first span that may reach into what begins at `from`: spans stand by their start, and those
 * of a lane do not overlap by more than the clocks' grain. */
export function firstSpan(lane: Lane, from: number): number {
    let low = 0;
    let high = lane.starts.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (lane.starts[middle]! + lane.lengths[middle]! <= from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/** The span at a moment, or the nearest within `grain`; -1: none. */
export function spanAt(lane: Lane, moment: number, grain: number): number {
    const first = firstSpan(lane, moment - grain);
    let best = -1;
    let distance = grain;
    for (let i = first; i < lane.starts.length && lane.starts[i]! <= moment + grain; i++) {
        const end = lane.starts[i]! + lane.lengths[i]!;
        const away =
            moment < lane.starts[i]! ? lane.starts[i]! - moment : Math.max(0, moment - end);
        if (away <= distance) {
            best = i;
            distance = away;
        }
    }
    return best;
}

export type Range = readonly [from: number, until: number];

const SHORTEST = 1000;

/** Zooms by a factor about a moment, within the window. */
export function zoomed(range: Range, whole: number, about: number, factor: number): Range {
    const width = Math.min(whole, Math.max(SHORTEST, (range[1] - range[0]) * factor));
    const part = (about - range[0]) / (range[1] - range[0]);
    return within([about - part * width, about + (1 - part) * width], whole);
}

/** Moved as a whole so that it lies in the window. */
export function within(range: Range, whole: number): Range {
    const width = Math.min(whole, range[1] - range[0]);
    const from = Math.min(Math.max(0, range[0]), whole - width);
    return [from, from + width];
}

/** Round distances of marks on the axis, for about `wanted` of them. */
export function stepOf(width: number, wanted: number): number {
    const rough = width / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough)!;
}
