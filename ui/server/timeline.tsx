// One window over time: a lane for each thread or task, coloured by what it was doing.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatTime, formatValue } from "../flamegraph/format";
import type { Palette } from "../flamegraph/theme";
import { askJson, type Lanes, type Profiles } from "./api";
import { Message, Shown, useAsked, type Asked } from "./asked";
import { withFilter } from "./choice";
import { Segments, Select } from "./controls";
import {
    AXIS,
    firstSpan,
    LANE,
    lanesOf,
    NAMES,
    spanAt,
    STATES,
    stepOf,
    within,
    zoomed,
    type Lane,
    type Range,
} from "./lanes";
import { useQuestion, type ViewProps } from "./view";

/** What computes is loud, what waits for others is a warning, what rests is quiet. */
const COLORS: Record<string, readonly [light: string, dark: string]> = {
    "on-cpu": ["#d9591c", "#ff8b4d"],
    runnable: ["#e8b93a", "#d9a92e"],
    "gil-wait": ["#c2255c", "#f0709b"],
    "lock-wait": ["#7048c8", "#a68bf0"],
    io: ["#2f78c4", "#5fa4ea"],
    sleep: ["#9db8cf", "#4d6880"],
    parked: ["#e0deda", "#2c2f34"],
    other: ["#9a978f", "#70737a"],
};

export function colorOf(state: string, palette: Palette): string {
    return (COLORS[state] ?? COLORS.other!)[palette.dark ? 1 : 0];
}

interface Labels {
    readonly pid: string;
    readonly host: string;
}

function labelsOf(profiles: Profiles): Map<number, Labels> {
    return new Map(
        profiles.series.map(({ series, labels }) => {
            const of = new Map(labels);
            return [series, { pid: of.get("pid") ?? "", host: of.get("host") ?? "" }];
        }),
    );
}

function processName(labels: Labels | undefined, series: number): string {
    return labels?.pid
        ? `pid ${labels.pid}${labels.host ? ` on ${labels.host}` : ""}`
        : `series ${series}`;
}

export function Timeline(props: ViewProps): JSX.Element {
    const { choice, change } = props;
    const profiles = useQuestion<Profiles>(props, "/api/profiles", {});
    const list = profiles.value?.profiles ?? [];
    const chosen = list.find((item) => String(item.profile) === choice.profile) ?? list[0];
    const number = choice.profile !== "" ? choice.profile : chosen ? String(chosen.profile) : "";
    const lanes = useAsked<Lanes>(
        number === ""
            ? null
            : (signal) => {
                  const query = new URLSearchParams({ profile: number });
                  if (choice.lanes === "tasks") {
                      query.set("by", "task name");
                  }
                  return askJson<Lanes>("/api/timeline", query, signal);
              },
        [number, choice.lanes, props.round],
    );
    const labels = useMemo(
        () => (profiles.value ? labelsOf(profiles.value) : new Map<number, Labels>()),
        [profiles.value],
    );
    const series = [...new Set(list.map((item) => item.series))];
    const windows = list.filter((item) => item.series === chosen?.series);
    const at = windows.findIndex((item) => item === chosen);
    const step = (by: number): void => {
        const next = windows[at + by];
        if (next) {
            change({ profile: String(next.profile) });
        }
    };
    const both: Asked<Lanes> =
        profiles.value === null ? { value: null, error: profiles.error, busy: true } : lanes;
    if (profiles.value && list.length === 0 && number === "") {
        return (
            <Message title="Nothing here">
                <p>No profile in this time passes the filters.</p>
            </Message>
        );
    }
    return (
        <>
            <div class="toolbar view-controls">
                {chosen && (
                    <Select
                        label="process"
                        value={String(chosen.series)}
                        items={series.map((item) => [
                            String(item),
                            processName(labels.get(item), item),
                        ])}
                        onChange={(value) => {
                            const first = list.find((item) => String(item.series) === value);
                            change({ profile: first ? String(first.profile) : "" });
                        }}
                    />
                )}
                {chosen && (
                    <>
                        <button
                            class="control icon"
                            title="The window before"
                            aria-label="The window before"
                            disabled={at + 1 >= windows.length}
                            onClick={() => step(1)}
                        >
                            ‹
                        </button>
                        <Select
                            label="window"
                            value={String(chosen.profile)}
                            items={windows.map((item) => [
                                String(item.profile),
                                formatTime(BigInt(item.start_ns)),
                            ])}
                            onChange={(profile) => change({ profile })}
                        />
                        <button
                            class="control icon"
                            title="The window after"
                            aria-label="The window after"
                            disabled={at <= 0}
                            onClick={() => step(-1)}
                        >
                            ›
                        </button>
                    </>
                )}
                <Segments
                    label="Lanes"
                    value={choice.lanes}
                    items={[
                        ["", "Threads", "A lane for each thread"],
                        ["tasks", "Tasks", "A lane for each asyncio task"],
                    ]}
                    onChange={(value) => change({ lanes: value })}
                />
            </div>
            <Shown asked={both} onRetry={props.again}>
                {(answer) => <Window {...props} key={number} answer={answer} />}
            </Shown>
        </>
    );
}

interface Seen {
    readonly lane: Lane;
    readonly span: number;
}

function Window(props: ViewProps & { answer: Lanes }): JSX.Element {
    const { answer, choice, change, palette } = props;
    const byTask = choice.lanes === "tasks";
    const lanes = useMemo(() => lanesOf(answer, byTask), [answer, byTask]);
    const whole = Math.max(answer.duration_ns, 1);
    const [range, setRange] = useState<Range>([0, whole]);
    const [hover, setHover] = useState<Seen | null>(null);
    const [chosen, setChosen] = useState<Seen | null>(null);
    const frame = useRef<HTMLDivElement>(null);
    const canvas = useRef<HTMLCanvasElement>(null);
    const drag = useRef<{ x: number; range: Range; moved: boolean } | null>(null);
    const [size, setSize] = useState<readonly [number, number]>([0, 0]);
    const [scroll, setScroll] = useState(0);

    useEffect(() => {
        const element = frame.current;
        if (!element) {
            return undefined;
        }
        const observer = new ResizeObserver(() =>
            setSize([element.clientWidth, element.clientHeight]),
        );
        observer.observe(element);
        return () => observer.disconnect();
    }, [lanes.length === 0]);
    useEffect(() => {
        if (canvas.current && size[0] > 0) {
            draw(canvas.current, size, { answer, lanes, range, scroll, palette, chosen });
        }
    });

    if (lanes.length === 0) {
        return (
            <Message title="No lanes">
                <p>
                    {byTask
                        ? "No sample of this window names a task: look at its threads."
                        : "No sample of this window has a moment."}
                </p>
            </Message>
        );
    }

    const plot = Math.max(1, size[0] - namesWidth(size[0]));
    const momentOf = (x: number): number =>
        range[0] + ((x - namesWidth(size[0])) / plot) * (range[1] - range[0]);
    const seenAt = (event: MouseEvent): Seen | null => {
        const box = frame.current!.getBoundingClientRect();
        const y = event.clientY - box.top - AXIS + scroll;
        const lane = lanes[Math.floor(y / LANE)];
        const x = event.clientX - box.left;
        if (!lane || event.clientY - box.top < AXIS || x < namesWidth(size[0])) {
            return null;
        }
        const grain = ((range[1] - range[0]) / plot) * 2;
        const span = spanAt(lane, momentOf(x), grain);
        return span < 0 ? null : { lane, span };
    };
    const zoom = (factor: number, about = (range[0] + range[1]) / 2): void =>
        setRange(zoomed(range, whole, about, factor));
    const pan = (part: number): void => {
        const by = part * (range[1] - range[0]);
        setRange(within([range[0] + by, range[1] + by], whole));
    };
    const keys: Record<string, () => void> = {
        ArrowLeft: () => pan(-0.2),
        ArrowRight: () => pan(0.2),
        "+": () => zoom(0.5),
        "=": () => zoom(0.5),
        "-": () => zoom(2),
        "0": () => setRange([0, whole]),
        Escape: () => (chosen ? setChosen(null) : setRange([0, whole])),
    };
    const shown = chosen ?? hover;
    const isZoomed = range[1] - range[0] < whole;
    const states = STATES.filter((state) => answer.states.includes(state));
    return (
        <section class="view timeline" aria-label="Timeline">
            <div class="legend-line">
                <ul class="state-legend" aria-label="What threads do">
                    {states.map((state) => (
                        <li key={state}>
                            <svg width="10" height="10" aria-hidden="true">
                                <rect
                                    width="10"
                                    height="10"
                                    rx="2"
                                    fill={colorOf(state, palette)}
                                />
                            </svg>
                            {state}
                        </li>
                    ))}
                </ul>
                <span class="muted">
                    {lanes.length} {byTask ? "tasks" : "threads"}, busiest first
                </span>
                <span class="zoom-buttons">
                    <button
                        class="control icon"
                        aria-label="Zoom in"
                        title="Zoom in (+, or the wheel)"
                        onClick={() => zoom(0.5)}
                    >
                        +
                    </button>
                    <button
                        class="control icon"
                        aria-label="Zoom out"
                        title="Zoom out (−)"
                        disabled={!isZoomed}
                        onClick={() => zoom(2)}
                    >
                        −
                    </button>
                    <button
                        class="control"
                        disabled={!isZoomed}
                        title="The whole window (0)"
                        onClick={() => setRange([0, whole])}
                    >
                        Whole window
                    </button>
                </span>
            </div>
            <div
                class="lanes"
                ref={frame}
                tabIndex={0}
                role="group"
                aria-label={`${lanes.length} lanes; arrows move, plus and minus zoom`}
                onScroll={(event) => setScroll(event.currentTarget.scrollTop)}
                onKeyDown={(event) => {
                    const action = keys[event.key];
                    if (action && !event.ctrlKey && !event.metaKey && !event.altKey) {
                        event.preventDefault();
                        action();
                    }
                }}
                onWheel={(event) => {
                    if (event.ctrlKey || event.shiftKey || lanes.length * LANE + AXIS <= size[1]) {
                        event.preventDefault();
                        const box = frame.current!.getBoundingClientRect();
                        zoom(
                            event.deltaY + event.deltaX > 0 ? 1.25 : 0.8,
                            momentOf(event.clientX - box.left),
                        );
                    }
                }}
                onPointerDown={(event) => {
                    if (event.button === 0) {
                        drag.current = { x: event.clientX, range, moved: false };
                    }
                }}
                onPointerMove={(event) => {
                    const from = drag.current;
                    if (from && Math.abs(event.clientX - from.x) > 3) {
                        from.moved = true;
                        const by =
                            ((from.x - event.clientX) / plot) * (from.range[1] - from.range[0]);
                        setRange(within([from.range[0] + by, from.range[1] + by], whole));
                        frame.current!.setPointerCapture(event.pointerId);
                    } else {
                        setHover(seenAt(event));
                    }
                }}
                onPointerUp={(event) => {
                    if (drag.current && !drag.current.moved) {
                        setChosen(seenAt(event));
                    }
                    drag.current = null;
                }}
                onPointerLeave={() => setHover(null)}
                onDblClick={(event) => {
                    const box = frame.current!.getBoundingClientRect();
                    zoom(0.25, momentOf(event.clientX - box.left));
                }}
            >
                <canvas ref={canvas} />
                <svg
                    class="lanes-height"
                    width="1"
                    height={Math.max(1, lanes.length * LANE + AXIS - size[1])}
                    aria-hidden="true"
                />
            </div>
            <div class="span-facts" aria-live="polite">
                {shown ? (
                    <SpanFacts
                        seen={shown}
                        answer={answer}
                        onThread={() =>
                            change({
                                view: "graph",
                                where: withFilter(
                                    choice,
                                    byTask ? "task name" : "thread name",
                                    shown.lane.name,
                                ),
                            })
                        }
                        onFunction={(name) =>
                            change({ view: "graph", where: withFilter(choice, "function", name) })
                        }
                    />
                ) : (
                    <span class="muted">
                        Point at a span to see what ran; a click keeps it. Drag moves, the wheel or
                        + and − zoom.
                    </span>
                )}
            </div>
        </section>
    );
}

function SpanFacts(props: {
    seen: Seen;
    answer: Lanes;
    onThread(): void;
    onFunction(name: string): void;
}): JSX.Element {
    const { answer } = props;
    const { lane, span } = props.seen;
    const name = answer.names[lane.functions[span]!] ?? "";
    const start = lane.starts[span]!;
    return (
        <>
            <button
                class="link name"
                title="Its flame graph"
                onClick={() => props.onFunction(name)}
            >
                {name || "<no stack>"}
            </button>
            <span>{answer.states[lane.states[span]!]}</span>
            <span>{formatValue(lane.lengths[span]!, "nanoseconds")}</span>
            <span class="muted">
                at {start < 0 ? "−" : "+"}
                {formatValue(Math.abs(start), "nanoseconds")}
            </span>
            <button class="link" title="The flame graph of this lane" onClick={props.onThread}>
                {lane.name || "<no name>"}
            </button>
            {lane.id > 0 && <span class="muted">id {lane.id}</span>}
        </>
    );
}

function namesWidth(width: number): number {
    return Math.min(NAMES, width * 0.3);
}

interface Picture {
    readonly answer: Lanes;
    readonly lanes: readonly Lane[];
    readonly range: Range;
    readonly scroll: number;
    readonly palette: Palette;
    readonly chosen: Seen | null;
}

const FONT = "11.5px system-ui, 'Liberation Sans', sans-serif";

function draw(
    canvas: HTMLCanvasElement,
    [width, height]: readonly [number, number],
    picture: Picture,
): void {
    const { answer, lanes, range, scroll, palette } = picture;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d")!;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.font = FONT;
    context.textBaseline = "middle";
    const left = namesWidth(width);
    const perNs = (width - left) / (range[1] - range[0]);
    const colors = answer.states.map((state) => colorOf(state, palette));
    const first = Math.floor(scroll / LANE);
    const last = Math.min(lanes.length, Math.ceil((scroll + height - AXIS) / LANE));
    for (let row = first; row < last; row++) {
        const lane = lanes[row]!;
        const y = AXIS + row * LANE - scroll;
        context.fillStyle = palette.text;
        context.fillText(clipped(context, lane.name || "<no name>", left - 16), 8, y + LANE / 2);
        let drawn = -1;
        for (
            let i = firstSpan(lane, range[0]);
            i < lane.starts.length && lane.starts[i]! < range[1];
            i++
        ) {
            const from = left + Math.max(0, (lane.starts[i]! - range[0]) * perNs);
            const until = Math.min(
                width,
                left + (lane.starts[i]! + lane.lengths[i]! - range[0]) * perNs,
            );
            if (until - from < 0.5 && until <= drawn + 0.5) {
                continue; /* less than a pixel, beside one that is drawn */
            }
            drawn = Math.max(until, from + 0.5);
            context.fillStyle = colors[lane.states[i]!] ?? palette.muted;
            context.fillRect(
                from,
                y + 2,
                Math.max(0.5, until - from - (until - from > 3 ? 0.5 : 0)),
                LANE - 4,
            );
            if (until - from > 46 && !isQuiet(answer.states[lane.states[i]!])) {
                context.fillStyle = palette.dark ? "#101113" : "#ffffff";
                const name = answer.names[lane.functions[i]!] ?? "";
                context.fillText(
                    clipped(context, name, until - from - 10),
                    from + 5,
                    y + LANE / 2 + 0.5,
                );
            }
        }
        if (picture.chosen?.lane === lane) {
            const i = picture.chosen.span;
            const from = left + Math.max(0, (lane.starts[i]! - range[0]) * perNs);
            const until = left + (lane.starts[i]! + lane.lengths[i]! - range[0]) * perNs;
            context.strokeStyle = palette.select;
            context.lineWidth = 1.5;
            context.strokeRect(from, y + 1.5, Math.max(2, until - from), LANE - 3);
        }
    }
    drawAxis(context, width, left, range, palette);
}

function isQuiet(state: string | undefined): boolean {
    return state === "parked" || state === "sleep";
}

function drawAxis(
    context: CanvasRenderingContext2D,
    width: number,
    left: number,
    range: Range,
    palette: Palette,
): void {
    context.fillStyle = palette.background;
    context.fillRect(0, 0, width, AXIS);
    const step = stepOf(range[1] - range[0], Math.max(2, (width - left) / 110));
    const perNs = (width - left) / (range[1] - range[0]);
    for (let mark = Math.ceil(range[0] / step) * step; mark < range[1]; mark += step) {
        const x = left + (mark - range[0]) * perNs;
        context.fillStyle = palette.rest;
        context.fillRect(x, AXIS - 5, 1, 5);
        context.fillStyle = palette.muted;
        const text = mark === 0 ? "0" : formatValue(mark, "nanoseconds");
        context.fillText(
            text,
            Math.min(x + 3, width - context.measureText(text).width - 2),
            AXIS / 2,
        );
    }
    context.fillStyle = palette.rest;
    context.fillRect(0, AXIS - 1, width, 1);
}

function clipped(context: CanvasRenderingContext2D, text: string, width: number): string {
    if (context.measureText(text).width <= width) {
        return text;
    }
    let low = 0;
    let high = text.length;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(`${text.slice(0, middle)}…`).width <= width) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low === 0 ? "" : `${text.slice(0, low)}…`;
}
