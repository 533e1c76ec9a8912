// The call graph: who calls whom, drawn by Graphviz, which is loaded when it is first needed.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatValue } from "../flamegraph/format";
import { ApiError, type Calls as Answer, type Top } from "./api";
import { Failure, Message, Shown, useAsked } from "./asked";
import { pictureOf, type Draw } from "./callgraph";
import { lookAt, useQuestion, type ViewProps } from "./view";

let loading: Promise<Draw> | null = null;

function loadDraw(): Promise<Draw> {
    loading ??= new Promise<Draw>((resolve, reject) => {
        const script = document.createElement("script");
        script.src = "graphviz.js";
        script.onload = () =>
            resolve((globalThis as unknown as { pyrometerDraw: Draw }).pyrometerDraw);
        script.onerror = () => {
            loading = null;
            script.remove();
            reject(new ApiError(0, "the part of this page that draws graphs cannot be loaded"));
        };
        document.head.append(script);
    });
    return loading;
}

export function Calls(props: ViewProps): JSX.Element {
    const { type } = props.choice;
    const top = useQuestion<Top>(props, "/api/top", { type, limit: "400" });
    const calls = useQuestion<Answer>(props, "/api/graph", { type, limit: "5000" });
    const both = {
        value: top.value && calls.value ? { top: top.value, calls: calls.value } : null,
        error: top.error ?? calls.error,
        busy: top.busy || calls.busy,
    };
    return (
        <Shown asked={both} onRetry={props.again}>
            {(answer) => <Graph {...props} {...answer} />}
        </Shown>
    );
}

/** Graphviz knows no width of the page's font: a line that would not fit its box is drawn narrower. */
function fitTexts(svg: SVGSVGElement): void {
    for (const node of svg.querySelectorAll<SVGGElement>(".node")) {
        const room = (node.querySelector("path")?.getBBox().width ?? 0) - 10;
        for (const text of node.querySelectorAll("text")) {
            if (room > 0 && text.getComputedTextLength() > room) {
                text.setAttribute("textLength", room.toFixed(1));
                text.setAttribute("lengthAdjust", "spacingAndGlyphs");
            }
        }
    }
}

const SCALES = [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 3] as const;

function Graph(props: ViewProps & { top: Top; calls: Answer }): JSX.Element {
    const { top, calls } = props;
    const picture = useMemo(() => pictureOf(top, calls), [top, calls]);
    const place = useRef<HTMLDivElement>(null);
    const [scale, setScale] = useState<number | null>(null);
    const look = lookAt(props);
    const drawn = useAsked(async () => (await loadDraw())(picture.graph), [picture]);
    const width = drawn.value?.width.baseVal.value ?? 0;

    useEffect(() => {
        const svg = drawn.value;
        if (!svg || !place.current) {
            return;
        }
        for (const [id, name] of picture.names) {
            const node = svg.querySelector(`#${id}`);
            node?.setAttribute("tabindex", "0");
            node?.setAttribute("role", "link");
            node?.setAttribute("aria-label", `${name}: show in the flame graph`);
        }
        place.current.replaceChildren(svg);
        fitTexts(svg);
    }, [drawn.value]);
    useEffect(() => {
        const svg = drawn.value;
        if (svg) {
            // As wide as its place at first, but never so small that nothing can be read.
            const room = (place.current?.clientWidth ?? 800) - 16;
            const chosen = scale ?? Math.min(1.2, Math.max(0.6, room / Math.max(1, width)));
            const box = svg.viewBox.baseVal;
            svg.setAttribute("width", String(box.width * chosen * (4 / 3)));
            svg.setAttribute("height", String(box.height * chosen * (4 / 3)));
        }
    }, [drawn.value, scale]);

    if (top.total === 0 || picture.names.size === 0) {
        return (
            <Message title="Nothing here">
                <p>No sample of this type has a stack.</p>
            </Message>
        );
    }
    const step = (by: number): void => {
        const now = scale ?? 1;
        const at = SCALES.findIndex((one) => one >= now - 0.01);
        setScale(SCALES[Math.min(SCALES.length - 1, Math.max(0, at + by))]!);
    };
    const open = (target: EventTarget | null): void => {
        const id = (target as Element | null)?.closest?.(".node")?.id ?? "";
        const name = picture.names.get(id);
        if (name !== undefined) {
            look(name);
        }
    };
    return (
        <section class="view" aria-label="Call graph">
            <div class="legend-line">
                <span class="muted">
                    {top.type}: {formatValue(top.total, top.unit)}. The {picture.names.size}{" "}
                    functions with the largest totals
                    {picture.hidden > 0 && `, ${picture.hidden} more not shown`}; a click shows one
                    in the flame graph.
                </span>
                <span class="zoom-buttons">
                    <button class="control icon" aria-label="Larger" onClick={() => step(1)}>
                        +
                    </button>
                    <button class="control icon" aria-label="Smaller" onClick={() => step(-1)}>
                        −
                    </button>
                    <button class="control" onClick={() => setScale(null)}>
                        Fit
                    </button>
                </span>
            </div>
            {drawn.error ? (
                <Failure error={drawn.error} onRetry={props.again} />
            ) : (
                <div
                    class="drawing"
                    ref={place}
                    aria-busy={drawn.busy}
                    onClick={(event) => open(event.target)}
                    onKeyDown={(event) => event.key === "Enter" && open(event.target)}
                >
                    <p class="muted">Drawing…</p>
                </div>
            )}
        </section>
    );
}
