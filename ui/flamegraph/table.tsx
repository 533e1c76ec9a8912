// Functions (or lines) with self and total. Only rows on screen are in the document, so a
// profile with 50,000 functions scrolls like one with fifty.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { colorOf } from "./color";
import { formatPercent, formatValue } from "./format";
import { placeOf, shortPlaceOf, type Symbols } from "./symbols";
import type { Palette } from "./theme";
import type { Sums } from "./tree";

export interface TableProps {
    symbols: Symbols;
    sums: Sums;
    total: number;
    unit: string;
    byLine: boolean;
    palette: Palette;
    matched: Uint8Array | null;
    selected: number;
    onSelect(symbol: number): void;
    onFocus(symbol: number): void;
    onMark(symbol: number): void;
}

type Column = "name" | "self" | "total";
export interface Order {
    readonly column: Column;
    readonly descending: boolean;
}

const ROW = 36;

/** Symbols with a value, matching ones alone under a search, in order; equal ones by name. */
export function orderSymbols(
    symbols: Symbols,
    sums: Sums,
    matched: Uint8Array | null,
    order: Order,
): number[] {
    const rows: number[] = [];
    for (let symbol = 0; symbol < symbols.count; symbol++) {
        if (sums.total[symbol]! > 0 && (matched === null || matched[symbol])) {
            rows.push(symbol);
        }
    }
    const sign = order.descending ? -1 : 1;
    const byName = (a: number, b: number): number =>
        symbols.name[a]! < symbols.name[b]! ? -1 : symbols.name[a]! > symbols.name[b]! ? 1 : a - b;
    const value = order.column === "self" ? sums.self : sums.total;
    return order.column === "name"
        ? rows.sort((a, b) => sign * byName(a, b))
        : rows.sort(
              (a, b) =>
                  sign * (value[a]! - value[b]!) || sums.total[b]! - sums.total[a]! || byName(a, b),
          );
}

export function Table(props: TableProps): JSX.Element {
    const { symbols, sums, total, unit, selected } = props;
    const [order, setOrder] = useState<Order>({ column: "self", descending: true });
    const [scroll, setScroll] = useState(0);
    const [height, setHeight] = useState(600);
    const scroller = useRef<HTMLDivElement>(null);
    const rows = useMemo(
        () => orderSymbols(symbols, sums, props.matched, order),
        [symbols, sums, props.matched, order],
    );

    useLayoutEffect(() => {
        const element = scroller.current!;
        const measure = (): void => setHeight(element.clientHeight);
        measure();
        const observer = new ResizeObserver(measure);
        observer.observe(element);
        return () => observer.disconnect();
    }, []);

    useEffect(() => {
        const element = scroller.current!;
        const at = rows.indexOf(selected);
        if (at < 0 || element.clientHeight === 0) {
            return;
        }
        const head = element.querySelector("thead")!.offsetHeight;
        const y = at * ROW;
        if (y < element.scrollTop || y + ROW > element.scrollTop + element.clientHeight - head) {
            element.scrollTop = Math.max(0, y - element.clientHeight / 3);
        }
    }, [selected, rows]);

    const first = Math.max(0, Math.floor(scroll / ROW) - 5);
    const last = Math.min(rows.length, Math.ceil((scroll + height) / ROW) + 5);
    const head = (column: Column, label: string): JSX.Element => {
        const active = order.column === column;
        return (
            <th
                scope="col"
                class={column}
                aria-sort={active ? (order.descending ? "descending" : "ascending") : "none"}
            >
                <button
                    type="button"
                    onClick={() =>
                        setOrder({
                            column,
                            descending: active ? !order.descending : column !== "name",
                        })
                    }
                >
                    {label}
                    <span class="arrow" aria-hidden="true">
                        {active ? (order.descending ? "▾" : "▴") : ""}
                    </span>
                </button>
            </th>
        );
    };
    const onKey = (event: KeyboardEvent): void => {
        const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
        if (step !== 0 && rows.length > 0) {
            event.preventDefault();
            const at = rows.indexOf(selected);
            const next = at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step));
            props.onSelect(rows[next]!);
        } else if (
            event.key === "Enter" &&
            event.target === scroller.current &&
            rows.includes(selected)
        ) {
            event.preventDefault();
            props.onFocus(selected);
        }
    };
    const cell = (column: "self" | "total", symbol: number): JSX.Element => {
        const value = sums[column][symbol]!;
        return (
            <td class="number">
                <span class="bar" style={{ width: `${(100 * value) / (total || 1)}%` }} />
                <span class="value">{value === 0 ? "–" : formatValue(value, unit)}</span>
                <span class="percent">{value === 0 ? "" : formatPercent(value, total)}</span>
            </td>
        );
    };
    const spacer = (count: number): JSX.Element | null =>
        count > 0 ? (
            <tr aria-hidden="true" class="spacer" style={{ height: `${count * ROW}px` }}>
                <td colSpan={3} />
            </tr>
        ) : null;

    return (
        <div
            class="table"
            ref={scroller}
            tabIndex={0}
            role="region"
            aria-label={props.byLine ? "Lines" : "Functions"}
            onKeyDown={onKey}
            onScroll={(event) => setScroll((event.target as HTMLElement).scrollTop)}
        >
            <table aria-rowcount={rows.length + 1}>
                <thead>
                    <tr>
                        {head("name", `${props.byLine ? "Line" : "Function"}`)}
                        {head("self", "Self")}
                        {head("total", "Total")}
                    </tr>
                </thead>
                <tbody onMouseLeave={() => props.onMark(-1)}>
                    {spacer(first)}
                    {rows.slice(first, last).map((symbol, i) => (
                        <tr
                            key={symbol}
                            aria-rowindex={first + i + 2}
                            data-symbol={symbol}
                            class={symbol === selected ? "selected" : ""}
                            onMouseEnter={() => props.onMark(symbol)}
                            onClick={() => props.onSelect(symbol)}
                            onDblClick={() => props.onFocus(symbol)}
                        >
                            <td class="what">
                                <Swatch
                                    symbols={symbols}
                                    symbol={symbol}
                                    dark={props.palette.dark}
                                />
                                <button
                                    type="button"
                                    class="name"
                                    aria-pressed={symbol === selected}
                                    title={`${symbols.name[symbol]}\n${placeOf(symbols, symbol)}`}
                                >
                                    {symbols.name[symbol]}
                                </button>
                                <span class="place">{shortPlaceOf(symbols, symbol)}</span>
                            </td>
                            {cell("self", symbol)}
                            {cell("total", symbol)}
                        </tr>
                    ))}
                    {spacer(rows.length - last)}
                </tbody>
            </table>
            {rows.length === 0 && <p class="none">No function matches.</p>}
        </div>
    );
}

function Swatch(props: { symbols: Symbols; symbol: number; dark: boolean }): JSX.Element {
    const kind = props.symbols.kind[props.symbol]!;
    return kind === "synthetic" ? (
        <span class="swatch hatched" />
    ) : (
        <span
            class="swatch"
            style={{ background: colorOf(kind, props.symbols.origin[props.symbol]!, props.dark) }}
        />
    );
}
