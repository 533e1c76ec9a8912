// A table that sorts by its heads: what most views are made of.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";

export interface Column<T> {
    readonly head: string;
    readonly title?: string;
    readonly cell: (row: T) => ComponentChildren;
    /** What it sorts by; without it, it does not. */
    readonly sort?: (row: T) => number | string;
    readonly tone?: (row: T) => string;
    /** Text stands left, numbers right. */
    readonly text?: boolean;
}

interface Order {
    readonly column: number;
    readonly down: boolean;
}

function ordered<T>(columns: readonly Column<T>[], rows: readonly T[], order: Order | null): T[] {
    const by = order === null ? undefined : columns[order.column]?.sort;
    if (!order || !by) {
        return [...rows];
    }
    const sign = order.down ? -1 : 1;
    return [...rows].sort((a, b) => {
        const left = by(a);
        const right = by(b);
        return left < right ? -sign : left > right ? sign : 0;
    });
}

export function Rows<T>(props: {
    label: string;
    columns: readonly Column<T>[];
    rows: readonly T[];
    /** Stands first whatever the order. */
    whole?: T;
    tone?: (row: T) => string;
    /** Rows may be chosen, by their first cell. */
    chosen?: T | undefined;
    onChoose?: (row: T) => void;
}): JSX.Element {
    const { columns, chosen, onChoose } = props;
    const [order, setOrder] = useState<Order | null>(null);
    const head = (column: Column<T>, i: number): JSX.Element => {
        const down = order?.column === i ? order.down : null;
        const sorted = down === null ? "none" : down ? "descending" : "ascending";
        return (
            <th
                key={column.head}
                class={column.text ? "text" : ""}
                title={column.title}
                aria-sort={column.sort ? sorted : undefined}
            >
                {column.sort ? (
                    <button
                        onClick={() =>
                            setOrder({ column: i, down: down === null ? !column.text : !down })
                        }
                    >
                        {column.head}
                        <span class="arrow">{down === null ? "" : down ? "↓" : "↑"}</span>
                    </button>
                ) : (
                    column.head
                )}
            </th>
        );
    };
    const line = (row: T, key: number | string, tone: string): JSX.Element => (
        <tr key={key} class={`${tone} ${row === chosen ? "selected" : ""}`}>
            {columns.map((column, i) => {
                const content = column.cell(row);
                return (
                    <td
                        key={column.head}
                        class={`${column.text ? "text" : ""} ${column.tone?.(row) ?? ""}`}
                    >
                        {i === 0 && onChoose ? (
                            <button
                                class="row-button"
                                aria-pressed={row === chosen}
                                onClick={() => onChoose(row)}
                            >
                                {content}
                            </button>
                        ) : (
                            content
                        )}
                    </td>
                );
            })}
        </tr>
    );
    return (
        <div class="rows">
            <table aria-label={props.label}>
                <thead>
                    <tr>{columns.map(head)}</tr>
                </thead>
                <tbody>
                    {props.whole !== undefined && line(props.whole, "whole", "whole")}
                    {ordered(columns, props.rows, order).map((row, i) =>
                        line(row, i, props.tone?.(row) ?? ""),
                    )}
                </tbody>
            </table>
        </div>
    );
}

/** The end of a path, which tells files apart; the whole path is in the title. */
export function shortFile(file: string): string {
    const parts = file.split("/").filter((part) => part !== "");
    return parts.length <= 2 ? file : `…/${parts.slice(-2).join("/")}`;
}

/** A function with the place that it is at; a click looks at it in the flame graph. */
export function Place(props: {
    name: string;
    file: string;
    line?: number;
    onLook?: ((name: string) => void) | undefined;
}): JSX.Element {
    const { name, file, line, onLook } = props;
    return (
        <span class="where-it-is" title={line ? `${file}:${line}` : file}>
            {onLook ? (
                <button
                    class="name link"
                    title={`${name}: show in the flame graph`}
                    onClick={() => onLook(name)}
                >
                    {name || "<no stack>"}
                </button>
            ) : (
                <span class="name">{name || "<no stack>"}</span>
            )}
            {file !== "" && (
                <span class="place">
                    {shortFile(file)}
                    {line ? `:${line}` : ""}
                </span>
            )}
        </span>
    );
}

/** A part of a whole, as a bar behind its number. */
export function Share(props: {
    part: number;
    whole: number;
    children: ComponentChildren;
}): JSX.Element {
    const share = props.whole > 0 ? Math.min(1, props.part / props.whole) : 0;
    return (
        <span class="share">
            <svg
                class="share-bar"
                viewBox="0 0 100 1"
                preserveAspectRatio="none"
                aria-hidden="true"
            >
                <rect width={share * 100} height="1" />
            </svg>
            <span>{props.children}</span>
        </span>
    );
}
