// A sample type over time, whole or split, by uPlot; dragging over it chooses a time.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatValue } from "../flamegraph/format";
import { oklch } from "../flamegraph/color";
import type { Palette } from "../flamegraph/theme";
import type { Lines } from "./api";
import { Select } from "./controls";

const HEIGHT = 104;
/** Lines that are drawn; more cannot be told apart. */
export const LINES = 8;

function hue(i: number, palette: Palette): string {
    return oklch(palette.dark ? 0.74 : 0.58, 0.15, (45 + i * 137.5) % 360);
}

function nameOf(name: string, split: string): string {
    return name !== "" ? name : split === "" ? "all" : `no ${split}`;
}

/** Values a second of the clock, which is what steps of different length can be compared by. */
export function rates(lines: Lines): { times: number[]; values: number[][] } {
    const start = Number(BigInt(lines.from_ns) / 1000000n) / 1000;
    const step = Number(BigInt(lines.step_ns) / 1000000n) / 1000;
    return {
        times: Array.from({ length: lines.steps }, (_, i) => start + i * step),
        values: lines.lines.map((line) => line.values.map((value) => value / step)),
    };
}

/** CPU time a second is cores; other time a second, such as waiting, is threads. */
function formatRate(value: number, lines: Lines): string {
    if (lines.unit === "nanoseconds") {
        const many = value / 1e9;
        const text = many >= 10 ? many.toFixed(0) : many.toPrecision(2);
        const noun = lines.type.startsWith("cpu") ? "cores" : "threads";
        return value === 0 ? "0" : `${text}\u00a0${noun}`;
    }
    return `${formatValue(value, lines.unit)}/s`;
}

/** The time of a mark, as exact as the marks are close. */
export function markOf(seconds: number, step: number): string {
    const date = new Date(seconds * 1000);
    const two = (value: number): string => String(value).padStart(2, "0");
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0;
    if (step >= 86400 || (isMidnight && step >= 60)) {
        return date.toLocaleDateString([], { month: "short", day: "numeric" });
    }
    const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
    return step >= 60 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}

export function Chart(props: {
    lines: Lines;
    palette: Palette;
    /** To choose from; none: the type is chosen elsewhere. */
    types: readonly string[];
    split: string;
    splits: readonly string[];
    onType(type: string): void;
    onSplit(split: string): void;
    onRange(from: number, until: number): void;
}): JSX.Element {
    const { lines, palette, split } = props;
    const place = useRef<HTMLDivElement>(null);
    const onRange = useRef(props.onRange);
    onRange.current = props.onRange;

    useEffect(() => {
        const element = place.current!;
        const { times, values } = rates(lines);
        const step = Number(BigInt(lines.step_ns) / 1000000n) / 1000;
        const bars = uPlot.paths.bars!({ size: [0.9, Infinity], align: 1, gap: 0 });
        const axis = {
            stroke: palette.muted,
            grid: { stroke: palette.rest, width: 0.5 },
            ticks: { stroke: palette.rest, width: 0.5 },
            font: "11px system-ui, 'Liberation Sans', sans-serif",
        };
        const chart = new uPlot(
            {
                width: Math.max(100, element.clientWidth),
                height: HEIGHT,
                padding: [6, 24, 0, 0],
                legend: { show: false },
                cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
                scales: {
                    x: { range: () => [times[0]!, times[0]! + lines.steps * step] },
                    y: { range: (_, __, most) => [0, most > 0 ? most * 1.08 : 1] },
                },
                axes: [
                    {
                        ...axis,
                        size: 26,
                        values: (_, marks, __, ___, step) =>
                            marks.map((mark) => markOf(mark, step)),
                    },
                    {
                        ...axis,
                        size: 84,
                        space: 24,
                        values: (_, marks) => marks.map((mark) => formatRate(mark, lines)),
                    },
                ],
                series: [
                    {},
                    ...lines.lines.map((line, i) => ({
                        label: nameOf(line.name, split),
                        stroke: hue(i, palette),
                        ...(split === ""
                            ? { paths: bars, fill: `${hue(i, palette)}99`, width: 0 }
                            : { width: 1.5 }),
                        points: { show: split !== "" && lines.steps < 3 },
                    })),
                ],
                hooks: {
                    setSelect: [
                        (self) => {
                            if (self.select.width > 3) {
                                const from = self.posToVal(self.select.left, "x");
                                const until = self.posToVal(
                                    self.select.left + self.select.width,
                                    "x",
                                );
                                self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                                onRange.current(
                                    Math.floor(from / step) * step,
                                    Math.ceil(until / step) * step,
                                );
                            }
                        },
                    ],
                    setCursor: [(self) => showValues(element, self, lines, split)],
                },
            },
            [times, ...values],
            element,
        );
        const observer = new ResizeObserver(() =>
            chart.setSize({ width: Math.max(100, element.clientWidth), height: HEIGHT }),
        );
        observer.observe(element);
        return () => {
            observer.disconnect();
            chart.destroy();
        };
    }, [lines, palette, split]);

    return (
        <figure class="chart" aria-label={`${lines.type} over time; drag to choose a time`}>
            <div class="chart-head">
                {props.types.length > 0 ? (
                    <Select
                        label="type"
                        value={lines.type}
                        items={props.types.map((item) => [item, item])}
                        onChange={props.onType}
                    />
                ) : (
                    <b>{lines.type}</b>
                )}
                <Select
                    label="split by"
                    value={split}
                    items={[["", "nothing"], ...props.splits.map((item) => [item, item] as const)]}
                    onChange={props.onSplit}
                />
                {split !== "" && (
                    <ul class="chart-legend">
                        {lines.lines.map((line, i) => (
                            <li key={line.name} title={nameOf(line.name, split)}>
                                <svg width="10" height="10" aria-hidden="true">
                                    <rect width="10" height="10" rx="2" fill={hue(i, palette)} />
                                </svg>
                                <span>{nameOf(line.name, split)}</span>
                            </li>
                        ))}
                    </ul>
                )}
                <output class="chart-values muted">drag to choose a time</output>
            </div>
            <div ref={place} />
        </figure>
    );
}

/** Says what is under the pointer; written directly, since it follows each move. */
function showValues(element: HTMLElement, chart: uPlot, lines: Lines, split: string): void {
    const output = element.parentElement?.querySelector(".chart-values");
    const i = chart.cursor.idx;
    if (!output) {
        return;
    }
    if (i === null || i === undefined) {
        output.textContent = "drag to choose a time";
        return;
    }
    const time = new Date(chart.data[0][i]! * 1000).toLocaleTimeString();
    const values = lines.lines
        .map((line, n) => [nameOf(line.name, split), chart.data[n + 1]?.[i] ?? 0] as const)
        .sort((a, b) => b[1] - a[1])
        .slice(0, split === "" ? 1 : 3)
        .map(([name, value]) => `${split === "" ? "" : `${name} `}${formatRate(value, lines)}`);
    output.textContent = `${time}: ${values.join(", ")}`;
}
