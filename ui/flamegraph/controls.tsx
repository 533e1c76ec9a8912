// The parts around the graph: filter menus, breadcrumb, legend, help.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { colorOf } from "./color";
import { formatPercent, formatValue } from "./format";
import type { Kind, Symbols } from "./symbols";
import type { Sums, Tree } from "./tree";

/** A button that opens a panel; closed by Escape, by a click elsewhere, or by losing focus. */
export function Menu(props: {
    label: string;
    summary: string;
    active: boolean;
    children: ComponentChildren;
}): JSX.Element {
    const [open, setOpen] = useState(false);
    const element = useRef<HTMLDivElement>(null);
    useEffect(() => {
        if (!open) {
            return undefined;
        }
        const outside = (event: Event): void => {
            if (!element.current!.contains(event.target as Node)) {
                setOpen(false);
            }
        };
        document.addEventListener("pointerdown", outside);
        document.addEventListener("focusin", outside);
        return () => {
            document.removeEventListener("pointerdown", outside);
            document.removeEventListener("focusin", outside);
        };
    }, [open]);
    const onKey = (event: KeyboardEvent): void => {
        if (event.key === "Escape" && open) {
            event.stopPropagation();
            setOpen(false);
            element.current!.querySelector("button")!.focus();
        }
    };
    return (
        <div class="menu" ref={element} onKeyDown={onKey}>
            <button
                type="button"
                class={`control ${props.active ? "active" : ""}`}
                aria-expanded={open}
                aria-haspopup="true"
                onClick={() => setOpen(!open)}
            >
                <span class="label">{props.label}</span> {props.summary}
                <span class="arrow" aria-hidden="true">
                    ▾
                </span>
            </button>
            {open && (
                <div class="panel" role="group" aria-label={props.label}>
                    {props.children}
                </div>
            )}
        </div>
    );
}

export interface Choice {
    readonly label: string;
    readonly detail: string;
    readonly value: number;
    readonly on: boolean;
}

const LISTED = 200;

/** A list of things to show or leave out, each with its value; "only" leaves one. */
export function Choices(props: {
    choices: Choice[];
    unit: string;
    total: number;
    onToggle(index: number): void;
    onOnly(index: number): void;
    onAll(): void;
}): JSX.Element {
    const [find, setFind] = useState("");
    const order = useMemo(
        () =>
            props.choices
                .map((_choice, i) => i)
                .sort((a, b) => props.choices[b]!.value - props.choices[a]!.value),
        [props.choices],
    );
    const found = order.filter((i) =>
        `${props.choices[i]!.label} ${props.choices[i]!.detail}`
            .toLowerCase()
            .includes(find.toLowerCase()),
    );
    return (
        <>
            <div class="panel-head">
                {props.choices.length > 8 && (
                    <input
                        type="search"
                        placeholder="Find"
                        aria-label="Find in the list"
                        value={find}
                        onInput={(event) => setFind((event.target as HTMLInputElement).value)}
                    />
                )}
                <button type="button" class="link" onClick={props.onAll}>
                    Show all
                </button>
            </div>
            <ul>
                {found.slice(0, LISTED).map((i) => {
                    const choice = props.choices[i]!;
                    return (
                        <li key={i}>
                            <label>
                                <input
                                    type="checkbox"
                                    checked={choice.on}
                                    onChange={() => props.onToggle(i)}
                                />
                                <span class="choice">
                                    {choice.label}
                                    {choice.detail && <small> {choice.detail}</small>}
                                </span>
                                <span class="amount">{formatValue(choice.value, props.unit)}</span>
                            </label>
                            <button
                                type="button"
                                class="link"
                                aria-label={`Only ${choice.label} ${choice.detail}`}
                                onClick={() => props.onOnly(i)}
                            >
                                only
                            </button>
                        </li>
                    );
                })}
            </ul>
            {found.length > LISTED && (
                <p class="more">{found.length - LISTED} more: narrow the list by “Find”.</p>
            )}
            {found.length === 0 && <p class="more">Nothing matches.</p>}
        </>
    );
}

const NEAREST = 4;

/** The way from the root to the zoomed box; a long one is cut in the middle. */
export function Breadcrumb(props: {
    tree: Tree;
    symbols: Symbols;
    rootLabel: string;
    zoomed: number;
    onZoom(node: number): void;
}): JSX.Element {
    const nodes: number[] = [];
    for (let at = props.zoomed; at >= 0; at = props.tree.parent[at]!) {
        nodes.unshift(at);
    }
    const cut = nodes.length - NEAREST - 1;
    const shown = cut > 1 ? [nodes[0]!, -1, ...nodes.slice(-NEAREST)] : nodes;
    const list = useRef<HTMLOListElement>(null);
    useEffect(() => {
        list.current!.scrollLeft = list.current!.scrollWidth;
    }, [props.zoomed, props.tree]);
    return (
        <nav class="breadcrumb" aria-label="Zoom">
            <ol ref={list}>
                {shown.map((node) =>
                    node < 0 ? (
                        <li key="cut">{cut} more</li>
                    ) : (
                        <li key={node}>
                            <button
                                type="button"
                                aria-current={node === props.zoomed ? "location" : undefined}
                                onClick={() => props.onZoom(node)}
                            >
                                {props.tree.symbol[node]! < 0
                                    ? props.rootLabel
                                    : props.symbols.name[props.tree.symbol[node]!]}
                            </button>
                        </li>
                    ),
                )}
            </ol>
            {props.zoomed > 0 && (
                <button type="button" class="link reset" onClick={() => props.onZoom(0)}>
                    Reset zoom
                </button>
            )}
        </nav>
    );
}

const KINDS: [Kind, string][] = [
    ["application", "application"],
    ["package", "packages"],
    ["stdlib", "standard library"],
    ["native", "native"],
    ["synthetic", "not code"],
];
const GROUPS = 6;

/**
 * What the colours mean, and the groups that use most themselves; each is a button that searches
 * it.
 */
export function Legend(props: {
    symbols: Symbols;
    sums: Sums;
    total: number;
    dark: boolean;
    query: string;
    onSearch(query: string): void;
}): JSX.Element {
    const { kinds, groups } = useMemo(() => {
        const ofKind = new Map<Kind, number>();
        const ofGroup = new Map<string, { kind: Kind; value: number }>();
        for (let i = 0; i < props.symbols.count; i++) {
            const value = props.sums.self[i]!;
            const kind = props.symbols.kind[i]!;
            if (props.sums.total[i]! > 0) {
                ofKind.set(kind, (ofKind.get(kind) ?? 0) + value);
            }
            if (value > 0 && kind !== "native" && kind !== "synthetic") {
                const group = ofGroup.get(props.symbols.origin[i]!) ?? { kind, value: 0 };
                group.value += value;
                ofGroup.set(props.symbols.origin[i]!, group);
            }
        }
        return {
            kinds: KINDS.filter(([kind]) => ofKind.has(kind)).map(([kind, label]) => ({
                kind,
                label,
                value: ofKind.get(kind)!,
            })),
            groups: [...ofGroup].sort((a, b) => b[1].value - a[1].value).slice(0, GROUPS),
        };
    }, [props.symbols, props.sums]);
    const chip = (
        kind: Kind,
        name: string,
        label: string,
        value: number,
        color: string | null,
    ): JSX.Element => {
        const query = `in:${name}`;
        const on = props.query === query;
        return (
            <li key={`${kind}/${name}`}>
                <button
                    type="button"
                    aria-pressed={on}
                    title={`Show ${label}`}
                    onClick={() => props.onSearch(on ? "" : query)}
                >
                    <span
                        class={`swatch ${kind === "synthetic" ? "hatched" : ""}`}
                        style={color === null ? {} : { background: color }}
                    />
                    {label}{" "}
                    {value > 0 && <span class="amount">{formatPercent(value, props.total)}</span>}
                </button>
            </li>
        );
    };
    const family = (kind: Kind): string => {
        const [a, b, c] = ["b", "d", "a"].map((text) => colorOf(kind, text, props.dark));
        return kind === "native" ? a! : `linear-gradient(90deg, ${a}, ${b} 50%, ${c})`;
    };
    return (
        <ul class="legend" aria-label="Colours, with the share of self">
            {kinds.map(({ kind, label, value }) =>
                chip(kind, kind, label, value, kind === "synthetic" ? null : family(kind)),
            )}
            <li class="divider" aria-hidden="true" />
            {groups.map(([name, { kind, value }]) =>
                chip(kind, name, name, value, colorOf(kind, name, props.dark)),
            )}
        </ul>
    );
}

const KEYS: [string, string][] = [
    ["↑ ↓ ← →", "move in the graph: caller, callee, neighbours"],
    ["Enter", "zoom to the selected box"],
    ["Esc", "undo in turn: zoom, focus, search"],
    ["/", "search: a regular expression on names and files"],
    ["i", "inverted: who called what used the value itself"],
    ["f", "focus the selected function: its callers and callees"],
    ["l", "functions or lines"],
    ["p", "include or leave out parked threads"],
    ["c", "copy the selected name"],
    ["t", "theme: light or dark"],
    ["?", "this help"],
];

export function Help(props: { onClose(): void }): JSX.Element {
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => dialog.current!.showModal(), []);
    return (
        <dialog
            ref={dialog}
            class="help"
            aria-labelledby="help-title"
            onClose={props.onClose}
            onKeyDown={(event) => event.stopPropagation()}
            onClick={(event) => event.target === dialog.current && dialog.current!.close()}
        >
            <div>
                <h2 id="help-title">How to read and use this page</h2>
                <p>
                    A box is a function; its width is what it and everything it called used. Below a
                    box are its callees, the heaviest first. Where a box has nothing below it, it
                    used the value itself.
                </p>
                <table>
                    <tbody>
                        {KEYS.map(([key, what]) => (
                            <tr key={key}>
                                <th scope="row">
                                    <kbd>{key}</kbd>
                                </th>
                                <td>{what}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
                <p>
                    Click a box to zoom, click above it to go back. Double-click a row of the table
                    to focus its function. The address of the page holds the view: copy it to share
                    what you see.
                </p>
                <form method="dialog">
                    <button type="submit" class="control" autofocus>
                        Close
                    </button>
                </form>
            </div>
        </dialog>
    );
}
