// The graph as a component: canvas, pointer, keyboard, tooltip. Which box is zoomed or selected
// is its parent's business; it keeps only what passes (hover, scroll, the zoom's animation).
import type { JSX } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Painter, ROW, rowAt, rowTop } from "./draw";
import { formatPercent, formatValue } from "./format";
import { neighbour, nodeAtPoint, windowOf, type Direction, type Window } from "./layout";
import { placeOf, type Symbols } from "./symbols";
import type { Palette } from "./theme";
import type { Sums, Tree } from "./tree";

export interface FlameProps {
    label: string;
    tree: Tree;
    symbols: Symbols;
    sums: Sums;
    /** The whole that percentages refer to. */
    total: number;
    unit: string;
    rootLabel: string;
    /**
     * Shown tree has leaves at its root: a box's value is what its function's callers let it use.
     */
    inverted: boolean;
    flipped: boolean;
    palette: Palette;
    matched: Uint8Array | null;
    zoomed: number;
    selected: number;
    marked: number;
    onZoom(node: number): void;
    onSelect(node: number): void;
}

const ARROWS: Record<string, Direction> = {
    ArrowUp: "caller",
    ArrowDown: "callee",
    ArrowLeft: "previous",
    ArrowRight: "next",
};
const FLIPPED: Record<string, Direction> = { ...ARROWS, ArrowUp: "callee", ArrowDown: "caller" };
const ANIMATION_MS = 160;

interface Hover {
    node: number;
    x: number;
    y: number;
}

/** A window that glides to its target, unless the person asked for less motion. */
function useGlide(target: Window, tree: Tree, redraw: () => void): { current: Window } {
    const current = useRef(target);
    const shownTree = useRef(tree);
    useLayoutEffect(() => {
        const start = current.current;
        const still =
            shownTree.current !== tree || matchMedia("(prefers-reduced-motion: reduce)").matches;
        shownTree.current = tree;
        if (still || (start.from === target.from && start.to === target.to)) {
            current.current = target;
            redraw();
            return undefined;
        }
        const began = performance.now();
        let request = 0;
        const step = (now: number): void => {
            const part = Math.min(1, Math.max(0, (now - began) / ANIMATION_MS));
            const eased = 1 - (1 - part) ** 3;
            current.current =
                part === 1
                    ? target
                    : {
                          from: start.from + (target.from - start.from) * eased,
                          to: start.to + (target.to - start.to) * eased,
                      };
            redraw();
            if (part < 1) {
                request = requestAnimationFrame(step);
            }
        };
        request = requestAnimationFrame(step);
        return () => cancelAnimationFrame(request);
    }, [target.from, target.to, tree]);
    return current;
}

export function Flame(props: FlameProps): JSX.Element {
    const { tree, symbols, palette, flipped, zoomed, selected } = props;
    const scroller = useRef<HTMLDivElement>(null);
    const canvas = useRef<HTMLCanvasElement>(null);
    const [size, setSize] = useState({ width: 0, height: 0 });
    const [hover, setHover] = useState<Hover | null>(null);
    const painter = useMemo(
        () => (canvas.current ? new Painter(canvas.current, symbols, palette) : null),
        [symbols, palette, size.width > 0],
    );
    const rows = tree.maxDepth + 1;
    const target = useMemo(() => windowOf(tree, zoomed), [tree, zoomed]);
    const hovered = hover !== null && hover.node < tree.count ? hover.node : -1;

    const draw = useRef(() => {});
    const redraw = useCallback(() => draw.current(), []);
    const view = useGlide(target, tree, redraw);
    draw.current = () => {
        if (painter !== null && size.width > 0) {
            painter.draw(
                {
                    tree,
                    symbols,
                    flipped,
                    zoomed,
                    selected,
                    hovered,
                    rootLabel: props.rootLabel,
                    view: view.current,
                    marked: props.marked,
                    matched: props.matched,
                },
                size.width,
                size.height,
                scroller.current?.scrollTop ?? 0,
            );
        }
    };
    useLayoutEffect(redraw);

    useLayoutEffect(() => {
        const element = scroller.current!;
        const measure = (): void =>
            setSize({ width: element.clientWidth, height: element.clientHeight });
        measure();
        const observer = new ResizeObserver(measure);
        observer.observe(element);
        return () => observer.disconnect();
    }, []);

    useLayoutEffect(() => {
        if (flipped && scroller.current) {
            scroller.current.scrollTop = scroller.current.scrollHeight;
        }
        setHover(null);
    }, [tree, flipped, size.height > 0]);

    // A chosen or zoomed box comes into sight, and with a zoomed one what lies beyond it.
    useEffect(() => {
        const element = scroller.current;
        const node = selected >= 0 ? selected : zoomed;
        if (element && node > 0) {
            const y = rowTop(tree.depth[node]!, rows, size.height, element.scrollTop, flipped);
            const beyond = node === zoomed ? Math.min(5, rows - 1 - tree.depth[node]!) * ROW : 0;
            const [low, high] = flipped ? [y - beyond, y + ROW] : [y, y + ROW + beyond];
            if (low < 0 || high > size.height) {
                element.scrollTop += (low + high - size.height) / 2;
            }
        }
    }, [selected, zoomed, tree, size.height]);

    const nodeUnder = (event: MouseEvent): number => {
        const element = scroller.current!;
        const box = element.getBoundingClientRect();
        const row = rowAt(event.clientY - box.top, rows, size.height, element.scrollTop, flipped);
        return nodeAtPoint(tree, view.current, size.width, event.clientX - box.left, row);
    };
    const onMove = (event: PointerEvent): void => {
        const node = event.pointerType === "touch" ? -1 : nodeUnder(event);
        setHover(node < 0 ? null : { node, x: event.clientX, y: event.clientY });
    };
    const onClick = (event: MouseEvent): void => {
        const node = nodeUnder(event);
        if (node >= 0) {
            props.onSelect(node);
            props.onZoom(node);
        }
    };
    const onKey = (event: KeyboardEvent): void => {
        if (event.ctrlKey || event.metaKey || event.altKey) {
            return;
        }
        const direction = (flipped ? FLIPPED : ARROWS)[event.key];
        if (direction !== undefined) {
            event.preventDefault();
            const next = selected < 0 ? zoomed : neighbour(tree, selected, direction);
            const inside =
                (next >= zoomed && next < tree.end[zoomed]!) ||
                (tree.end[next]! > zoomed && next < zoomed);
            if (inside) {
                props.onSelect(next);
            }
        } else if (event.key === "Enter" && selected >= 0) {
            event.preventDefault();
            props.onZoom(selected);
        }
    };

    return (
        <div
            class="flame"
            ref={scroller}
            role="application"
            aria-roledescription="flame graph"
            aria-label={`${props.label}. Arrow keys move, Enter zooms, Escape resets.`}
            tabIndex={0}
            data-hovered={hovered}
            data-rows={rows}
            data-boxes={tree.count}
            onScroll={() => {
                setHover(null);
                redraw();
            }}
            onPointerMove={onMove}
            onPointerLeave={() => setHover(null)}
            onClick={onClick}
            onKeyDown={onKey}
        >
            <canvas
                ref={canvas}
                aria-hidden="true"
                style={{ width: `${size.width}px`, height: `${size.height}px` }}
            />
            <div class="extent" style={{ height: `${Math.max(0, rows * ROW - size.height)}px` }} />
            {hovered >= 0 && hover !== null && (
                <Tooltip {...props} node={hovered} x={hover.x} y={hover.y} />
            )}
        </div>
    );
}

/** Label, value, percentage. */
export type Fact = [string, string, string];

export function functionFacts(sums: Sums, symbol: number, whole: number, unit: string): Fact[] {
    const total = sums.total[symbol] ?? 0;
    const self = sums.self[symbol] ?? 0;
    return [
        ["Total", formatValue(total, unit), formatPercent(total, whole)],
        ["Self", formatValue(self, unit), formatPercent(self, whole)],
    ];
}

export function boxFacts(
    props: Pick<FlameProps, "tree" | "sums" | "total" | "unit" | "inverted" | "flipped">,
    node: number,
): Fact[] {
    const { tree, sums, total, unit } = props;
    const symbol = tree.symbol[node]!;
    const value = tree.total[node]!;
    const parent = tree.parent[node]!;
    const facts: Fact[] = [];
    const row = (label: string, amount: number): void => {
        facts.push([label, formatValue(amount, unit), formatPercent(amount, total)]);
    };
    const callersSide = props.inverted || props.flipped;
    row(callersSide ? "By this path" : "Total", value);
    if (!callersSide) {
        row("Self", tree.self[node]!);
    }
    if (parent >= 0) {
        facts.push([
            callersSide ? "Of the box it leads to" : "Of its caller",
            "",
            formatPercent(value, tree.total[parent]!),
        ]);
    }
    if (symbol >= 0 && (callersSide || sums.total[symbol] !== value)) {
        row("Function, total", sums.total[symbol]!);
        row("Function, self", sums.self[symbol]!);
    }
    return facts;
}

function Tooltip(props: FlameProps & { node: number; x: number; y: number }): JSX.Element {
    const element = useRef<HTMLDivElement>(null);
    const symbol = props.tree.symbol[props.node]!;
    useLayoutEffect(() => {
        const box = element.current!;
        const left =
            props.x + 14 + box.offsetWidth > innerWidth - 8
                ? props.x - 14 - box.offsetWidth
                : props.x + 14;
        const top =
            props.y + 18 + box.offsetHeight > innerHeight - 8
                ? props.y - 12 - box.offsetHeight
                : props.y + 18;
        box.style.left = `${Math.max(8, left)}px`;
        box.style.top = `${Math.max(8, top)}px`;
    });
    return (
        <div class="tooltip" role="tooltip" ref={element}>
            <div class="name">{symbol < 0 ? props.rootLabel : props.symbols.name[symbol]}</div>
            {symbol >= 0 && <div class="place">{placeOf(props.symbols, symbol)}</div>}
            <table>
                <tbody>
                    {boxFacts(props, props.node).map(([label, value, percent]) => (
                        <tr key={label}>
                            <th scope="row">{label}</th>
                            <td>{value}</td>
                            <td>{percent}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}
