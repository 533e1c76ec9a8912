// A profile small enough to check by hand. cpu-time, by stack (root first), thread and state:
//   main;work;parse   30  t0 on-cpu
//   main;work         20  t0 on-cpu
//   main;idle         40  t0 parked
//   main;work;work;parse   8  t1 (recursion)   io
//   serve;parse        2  t1 no state
// 100 in all, 60 without what is parked. The second type, heap-space, has 5 for main;work;parse.
import type { ProfileDocument } from "../profile";

export const MAIN = 0;
export const WORK = 1;
export const PARSE = 2;
export const IDLE = 3;
export const SERVE = 4;

export function sampleDocument(): ProfileDocument {
    return {
        title: "sample",
        start_ns: "1753000000000000000",
        duration_ns: 100,
        default: 0,
        types: [
            { type: "cpu-time", unit: "nanoseconds" },
            { type: "heap-space", unit: "bytes" },
        ],
        strings: [
            "main",
            "work",
            "parse",
            "idle",
            "serve",
            "/srv/app/main.py",
            "/srv/app/work.py",
            "/x/site-packages/lib/parse.py",
            "<native>",
            "t0",
            "t1",
            "on-cpu",
            "parked",
            "io",
        ],
        functions: [
            [0, 5, 1],
            [1, 6, 10],
            [2, 7, 20],
            [3, 8, 0],
            [4, 5, 30],
        ],
        // work is seen on lines 11 and 12
        frames: [
            [0, 2],
            [1, 11],
            [1, 12],
            [2, 21],
            [3, 0],
            [4, 31],
        ],
        stacks: [
            [-1, 0],
            [0, 1],
            [1, 3],
            [0, 4],
            [1, 2],
            [4, 3],
            [-1, 5],
            [6, 3],
        ],
        threads: [
            [9, 100],
            [10, 101],
        ],
        states: [11, 12, 13],
        samples: [
            [2, 0, 0, [30, 5]],
            [1, 0, 0, [20, 0]],
            [3, 0, 1, [40, 0]],
            [5, 1, 2, [8, 0]],
            [7, 1, -1, [2, 0]],
        ],
        notes: ["one note"],
        rows: [["interval", "10 ms"]],
    };
}
