// The page: what is derived from what. The view (view.ts) decides; everything else follows from
// it in one direction: samples -> weights -> tree -> shown tree, sums, matches.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Breadcrumb, Help, Legend } from "./controls";
import { weigh } from "./filter";
import { boxFacts, Flame, functionFacts } from "./flame";
import { formatPercent, formatValue } from "./format";
import { Details, Empty, Filters, Header, Notes, Summary, TypeSelect } from "./panels";
import type { Profile } from "./profile";
import { matchedTotal, search } from "./search";
import { makeSymbols } from "./symbols";
import { Table } from "./table";
import type { Theme } from "./theme";
import { callTree, invert, nodeAt, pathOf, sandwich, sumSymbols, type Tree } from "./tree";
import { decodeView, encodeView, PARKED, toggled, type View } from "./view";

/**
 * The view, in step with the URL's fragment. Typing replaces the entry in the history, a step adds
 * one.
 */
function useView(profile: Profile): [View, (change: Partial<View>, typing?: boolean) => void] {
    const [view, setView] = useState(() => decodeView(location.hash, profile));
    useEffect(() => {
        const listen = (): void => setView(decodeView(location.hash, profile));
        addEventListener("popstate", listen);
        return () => removeEventListener("popstate", listen);
    }, [profile]);
    const change = useCallback(
        (part: Partial<View>, typing = false) => {
            setView((old) => {
                const next = { ...old, ...part };
                const fragment = encodeView(next, profile);
                if (fragment !== location.hash.slice(1)) {
                    const url =
                        location.href.replace(/#.*/, "") + (fragment === "" ? "" : `#${fragment}`);
                    try {
                        history[typing ? "replaceState" : "pushState"](null, "", url);
                    } catch {
                        // A frame without an address of its own: the view cannot be shared.
                    }
                }
                return next;
            });
        },
        [profile],
    );
    return [view, change];
}

interface Selection {
    readonly symbol: number;
    /** A box of the shown tree, or -1 when the function as a whole is meant. */
    readonly node: number;
    readonly pane: "main" | "callers";
}

const NOTHING: Selection = { symbol: -1, node: -1, pane: "main" };

export function App(props: {
    profile: Profile;
    theme: Theme;
    /** Given where it is a part of another page, which has a title and shows the type too. */
    onType?: (type: string) => void;
}): JSX.Element {
    const { profile, onType } = props;
    const [view, change] = useView(profile);
    const { palette, choice, next: nextTheme } = props.theme;
    const [selection, setSelection] = useState<Selection>(NOTHING);
    const [marked, setMarked] = useState(-1);
    const [help, setHelp] = useState(false);
    const [tab, setTab] = useState<"graph" | "table">("graph");
    const [copied, setCopied] = useState(false);
    const [callersZoom, setCallersZoom] = useState<readonly number[]>([]);
    const searchBox = useRef<HTMLInputElement>(null);

    const symbols = useMemo(() => makeSymbols(profile, view.byLine), [profile, view.byLine]);
    const weights = useMemo(
        () => weigh(profile, view),
        [profile, view.type, view.threads, view.hiddenStates],
    );
    const tree = useMemo(
        () => callTree(profile, symbols, weights.ofStack),
        [profile, symbols, weights],
    );
    const sums = useMemo(() => sumSymbols(tree, symbols.count), [tree, symbols]);
    const focus = view.focus < symbols.count ? view.focus : -1;
    const panes = useMemo(
        () => (focus >= 0 ? sandwich(tree, focus, symbols.count) : null),
        [tree, focus, symbols],
    );
    const shown = useMemo(
        () => panes?.callees ?? (view.inverted ? invert(tree, symbols.count) : tree),
        [panes, tree, view.inverted, symbols],
    );
    const found = useMemo(() => search(symbols, view.query), [symbols, view.query]);
    const zoomed = useMemo(() => nodeAt(shown, view.zoom), [shown, view.zoom]);
    const callersZoomed = useMemo(
        () => (panes ? nodeAt(panes.callers, callersZoom) : 0),
        [panes, callersZoom],
    );

    const type = profile.types[view.type]!;
    const unit = type.unit;
    const parked = weights.ofState[profile.states.indexOf(PARKED)] ?? 0;
    const parkedHidden = view.hiddenStates.has(PARKED);

    // A box's number means nothing in another tree: keep the function.
    useEffect(() => setSelection((old) => ({ ...old, node: -1 })), [shown]);
    useEffect(() => {
        setSelection(NOTHING);
        setMarked(-1);
    }, [symbols]);
    useEffect(() => setCallersZoom([]), [focus]);

    const selectedTree = selection.pane === "callers" && panes ? panes.callers : shown;
    const selectedNode = selection.node < selectedTree.count ? selection.node : -1;
    const selectIn =
        (pane: "main" | "callers", paneTree: Tree) =>
        (node: number): void =>
            setSelection({ node, pane, symbol: paneTree.symbol[node]! });
    const selectSymbol = useCallback(
        (symbol: number) => setSelection({ symbol, node: -1, pane: "main" }),
        [],
    );
    const focusOn = useCallback(
        (symbol: number) => {
            change({ focus: symbol, zoom: [] });
            setTab("graph");
        },
        [change],
    );
    const searchFor = (query: string): void => change({ query }, true);
    const toggleState = (name: string): void =>
        change({ hiddenStates: toggled(view.hiddenStates, name) });
    const copy = async (): Promise<void> => {
        if (selection.symbol >= 0) {
            await writeClipboard(symbols.name[selection.symbol]!);
            setCopied(true);
            setTimeout(() => setCopied(false), 1500);
        }
    };
    const undo = (): void => {
        if (zoomed > 0 || callersZoomed > 0) {
            change({ zoom: [] });
            setCallersZoom([]);
        } else if (focus >= 0) {
            change({ focus: -1 });
        } else if (view.query !== "") {
            searchFor("");
        } else {
            setSelection(NOTHING);
        }
    };

    const onKey = useRef((_event: KeyboardEvent) => {});
    onKey.current = (event) => {
        const typing =
            (event.target instanceof HTMLInputElement && event.target.type === "search") ||
            event.target instanceof HTMLSelectElement;
        if (
            event.ctrlKey ||
            event.metaKey ||
            event.altKey ||
            help ||
            (typing && event.key !== "Escape")
        ) {
            return;
        }
        const actions: Record<string, () => void> = {
            Escape: () => {
                if (event.target === searchBox.current) {
                    searchFor("");
                    searchBox.current!.blur();
                } else {
                    undo();
                }
            },
            "/": () => searchBox.current!.focus(),
            i: () => change({ inverted: !view.inverted, focus: -1, zoom: [] }),
            f: () => selection.symbol >= 0 && focusOn(selection.symbol),
            l: () => change({ byLine: !view.byLine, focus: -1, zoom: [] }),
            p: () => parked > 0 && toggleState(PARKED),
            c: () => void copy(),
            t: nextTheme,
            "?": () => setHelp(true),
        };
        const action = actions[event.key];
        if (action) {
            event.preventDefault();
            action();
        }
    };
    useEffect(() => {
        const listen = (event: KeyboardEvent): void => onKey.current(event);
        addEventListener("keydown", listen);
        return () => removeEventListener("keydown", listen);
    }, []);

    const rootLabel = `all · ${formatValue(weights.total, unit)}`;
    const pane = {
        symbols,
        sums,
        total: weights.total,
        unit,
        rootLabel,
        palette,
        matched: found.matched,
        marked: marked >= 0 ? marked : selection.symbol,
    };

    return (
        <div class="page" data-tab={tab}>
            <Header
                profile={profile}
                isPart={onType !== undefined}
                choice={choice}
                dark={palette.dark}
                onTheme={nextTheme}
                onHelp={() => setHelp(true)}
            />
            <div class="toolbar" role="toolbar" aria-label="View">
                <TypeSelect
                    profile={profile}
                    view={view}
                    onType={(index) => {
                        change({ type: index });
                        onType?.(profile.types[index]!.type);
                    }}
                />
                <div class="tabs" role="group" aria-label="Part">
                    <button
                        type="button"
                        aria-pressed={tab === "graph"}
                        onClick={() => setTab("graph")}
                    >
                        Graph
                    </button>
                    <button
                        type="button"
                        aria-pressed={tab === "table"}
                        onClick={() => setTab("table")}
                    >
                        Table
                    </button>
                </div>
                <div class="segments" role="group" aria-label="Graph">
                    <button
                        type="button"
                        aria-pressed={!view.inverted && focus < 0}
                        onClick={() => change({ inverted: false, focus: -1, zoom: [] })}
                    >
                        Calls
                    </button>
                    <button
                        type="button"
                        aria-pressed={view.inverted && focus < 0}
                        title="What used the value itself, and who called it"
                        onClick={() => change({ inverted: true, focus: -1, zoom: [] })}
                    >
                        Inverted
                    </button>
                    {focus >= 0 && (
                        <button type="button" aria-pressed="true">
                            Focus
                        </button>
                    )}
                </div>
                <div class="segments" role="group" aria-label="Detail">
                    <button
                        type="button"
                        aria-pressed={!view.byLine}
                        onClick={() => change({ byLine: false, focus: -1, zoom: [] })}
                    >
                        Functions
                    </button>
                    <button
                        type="button"
                        aria-pressed={view.byLine}
                        onClick={() => change({ byLine: true, focus: -1, zoom: [] })}
                    >
                        Lines
                    </button>
                </div>
                <Filters profile={profile} view={view} weights={weights} onChange={change} />
                <div class={`search ${found.error ? "wrong" : ""}`}>
                    <input
                        ref={searchBox}
                        type="search"
                        placeholder="Search: regular expression"
                        spellcheck={false}
                        aria-label="Search names and files"
                        aria-invalid={found.error !== ""}
                        aria-describedby="found"
                        value={view.query}
                        onInput={(event) => searchFor((event.target as HTMLInputElement).value)}
                    />
                    <kbd aria-hidden="true">/</kbd>
                </div>
                <output id="found" class={found.error ? "found wrong" : "found"} aria-live="polite">
                    {found.error ||
                        (found.matched &&
                            describeMatches(tree, shown, zoomed, found.matched, found.count, unit))}
                </output>
            </div>
            <Notes profile={profile}>
                {parked > 0 && (
                    <li class="parked">
                        {parkedHidden ? "Left out: " : "Included: "}
                        <b>{formatValue(parked, unit)}</b> of threads parked, that is waiting for
                        work.{" "}
                        <button type="button" class="link" onClick={() => toggleState(PARKED)}>
                            {parkedHidden ? "Include parked" : "Leave out parked"}
                        </button>
                    </li>
                )}
            </Notes>
            {weights.total === 0 ? (
                <Empty
                    profile={profile}
                    view={view}
                    weights={weights}
                    onReset={() => change({ threads: null, hiddenStates: new Set() })}
                />
            ) : (
                <main class="split">
                    <Table
                        symbols={symbols}
                        sums={sums}
                        total={weights.total}
                        unit={unit}
                        byLine={view.byLine}
                        palette={palette}
                        matched={found.matched}
                        selected={selection.symbol}
                        onSelect={selectSymbol}
                        onFocus={focusOn}
                        onMark={setMarked}
                    />
                    <section class="graph" aria-label="Graph">
                        <Summary profile={profile} type={type.type} unit={unit} weights={weights} />
                        {panes && (
                            <>
                                <div class="pane-head">
                                    <h2>
                                        Callers of <b>{symbols.name[focus]}</b>
                                    </h2>
                                    <button
                                        type="button"
                                        class="link"
                                        onClick={() => change({ focus: -1, zoom: [] })}
                                    >
                                        Leave focus
                                    </button>
                                </div>
                                <Flame
                                    {...pane}
                                    label={`Callers of ${symbols.name[focus]}`}
                                    tree={panes.callers}
                                    inverted={false}
                                    flipped={true}
                                    zoomed={callersZoomed}
                                    selected={selection.pane === "callers" ? selectedNode : -1}
                                    onZoom={(node) => setCallersZoom(pathOf(panes.callers, node))}
                                    onSelect={selectIn("callers", panes.callers)}
                                />
                                <div class="pane-head">
                                    <h2>What it calls</h2>
                                </div>
                            </>
                        )}
                        {zoomed > 0 && (
                            <Breadcrumb
                                tree={shown}
                                symbols={symbols}
                                rootLabel={rootLabel}
                                zoomed={zoomed}
                                onZoom={(node) => change({ zoom: pathOf(shown, node) })}
                            />
                        )}
                        <Flame
                            {...pane}
                            label={
                                panes
                                    ? `Callees of ${symbols.name[focus]}`
                                    : `${type.type}, ${rootLabel}`
                            }
                            tree={shown}
                            inverted={view.inverted && !panes}
                            flipped={false}
                            zoomed={zoomed}
                            selected={selection.pane === "main" ? selectedNode : -1}
                            onZoom={(node) => change({ zoom: pathOf(shown, node) })}
                            onSelect={selectIn("main", shown)}
                        />
                        <Details
                            symbols={symbols}
                            symbol={selection.symbol}
                            copied={copied}
                            facts={
                                selection.symbol < 0
                                    ? []
                                    : selectedNode >= 0
                                      ? boxFacts(
                                            {
                                                tree: selectedTree,
                                                sums,
                                                total: weights.total,
                                                unit,
                                                inverted: view.inverted && !panes,
                                                flipped: selection.pane === "callers",
                                            },
                                            selectedNode,
                                        )
                                      : functionFacts(sums, selection.symbol, weights.total, unit)
                            }
                            onFocus={
                                selection.symbol === focus ? null : () => focusOn(selection.symbol)
                            }
                            onCopy={() => void copy()}
                        />
                        <Legend
                            symbols={symbols}
                            sums={sums}
                            total={weights.total}
                            dark={palette.dark}
                            query={view.query}
                            onSearch={searchFor}
                        />
                    </section>
                </main>
            )}
            {help && <Help onClose={() => setHelp(false)} />}
        </div>
    );
}

function describeMatches(
    tree: Tree,
    shown: Tree,
    zoomed: number,
    matched: Uint8Array,
    count: number,
    unit: string,
): string {
    const total = matchedTotal(tree, matched);
    const whole = tree.total[0]!;
    const all = `${formatPercent(total, whole)} · ${formatValue(total, unit)} in ${count} ${count === 1 ? "match" : "matches"}`;
    if (zoomed === 0) {
        return all;
    }
    return `${all}; ${formatPercent(matchedTotal(shown, matched, zoomed), shown.total[zoomed]!)} of the zoomed`;
}

async function writeClipboard(text: string): Promise<void> {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        // Without permission, or from a file: the older way.
        const area = document.createElement("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
}
