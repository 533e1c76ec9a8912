// What stands around graph and table: facts, sample types, filters, notes, the selected box, an
// empty view.
import type { ComponentChildren, JSX } from "preact";
import { useMemo } from "preact/hooks";
import { Choices, Menu } from "./controls";
import { weigh, type Weights } from "./filter";
import type { Fact } from "./flame";
import { formatPercent, formatTime, formatValue } from "./format";
import type { Profile } from "./profile";
import { placeOf, type Symbols } from "./symbols";
import { PARKED, stateNames, toggled, type View } from "./view";

/** The selected box or function: whole name and place, its numbers, what can be done with it. */
export function Details(props: {
    symbols: Symbols;
    symbol: number;
    facts: Fact[];
    copied: boolean;
    onFocus: (() => void) | null;
    onCopy(): void;
}): JSX.Element {
    const { symbols, symbol, facts } = props;
    if (symbol < 0) {
        return (
            <div class="details" aria-live="polite">
                <p class="hint">
                    Click a box to zoom into it. <kbd>?</kbd> shows all keys.
                </p>
            </div>
        );
    }
    return (
        <div class="details" aria-live="polite">
            <div class="identity">
                <div class="name">{symbols.name[symbol]}</div>
                <div class="place">{placeOf(symbols, symbol)}</div>
            </div>
            <dl>
                {facts.map(([label, value, percent]) => (
                    <div key={label}>
                        <dt>{label}</dt>
                        <dd>
                            {value} <span>{percent}</span>
                        </dd>
                    </div>
                ))}
            </dl>
            <div class="actions">
                {props.onFocus && (
                    <button type="button" class="control" onClick={props.onFocus}>
                        Focus
                    </button>
                )}
                <button type="button" class="control" onClick={props.onCopy}>
                    {props.copied ? "Copied" : "Copy name"}
                </button>
            </div>
        </div>
    );
}

export function Header(props: {
    profile: Profile;
    isPart: boolean;
    choice: string;
    dark: boolean;
    onTheme(): void;
    onHelp(): void;
}): JSX.Element {
    const { profile } = props;
    const facts: (readonly [string, string])[] = [
        ...(profile.startNs > 0n ? [["start", formatTime(profile.startNs)] as const] : []),
        ...(profile.durationNs > 0
            ? [["duration", formatValue(profile.durationNs, "nanoseconds")] as const]
            : []),
        ...profile.rows,
    ];
    return (
        <header class="top">
            {!props.isPart && <h1>{profile.title}</h1>}
            <dl class="facts">
                {facts.map(([label, value]) => (
                    <div key={label}>
                        <dt>{label}</dt>
                        <dd>{value}</dd>
                    </div>
                ))}
            </dl>
            <div class="top-buttons">
                {!props.isPart && (
                    <button
                        type="button"
                        class="control icon"
                        onClick={props.onTheme}
                        aria-label={`Theme: ${props.choice}`}
                        title={`Theme: ${props.choice} (t)`}
                    >
                        {props.dark ? "☾" : "☀"}
                    </button>
                )}
                <button
                    type="button"
                    class="control icon"
                    onClick={props.onHelp}
                    aria-label="Help"
                    title="Help (?)"
                >
                    ?
                </button>
            </div>
        </header>
    );
}

export function TypeSelect(props: {
    profile: Profile;
    view: View;
    onType(index: number): void;
}): JSX.Element {
    const totals = useMemo(
        () =>
            props.profile.types.map(
                (_type, i) => weigh(props.profile, { ...props.view, type: i }).total,
            ),
        [props.profile, props.view.threads, props.view.hiddenStates],
    );
    return (
        <label class="type">
            <span class="hidden">Sample type</span>
            <select
                class="control"
                value={props.view.type}
                onChange={(event) =>
                    props.onType(Number((event.target as HTMLSelectElement).value))
                }
            >
                {props.profile.types.map((type, i) => (
                    <option key={i} value={i}>
                        {type.type} ·{" "}
                        {totals[i] === 0 ? "none" : formatValue(totals[i]!, type.unit)}
                    </option>
                ))}
            </select>
        </label>
    );
}

export function Filters(props: {
    profile: Profile;
    view: View;
    weights: Weights;
    onChange(change: Partial<View>): void;
}): JSX.Element {
    const { profile, view, weights } = props;
    const unit = profile.types[view.type]!.unit;
    const names = stateNames(profile);
    const states = names.flatMap((_name, i) => (weights.ofState[i]! > 0 ? [i] : []));
    const threadOn = (i: number): boolean => view.threads?.has(i) ?? true;
    const setThreads = (threads: Set<number>): void =>
        props.onChange({ threads: threads.size === profile.threads.length ? null : threads });
    const all = (): Set<number> => new Set(profile.threads.keys());
    const hiddenHere = states.filter((i) => view.hiddenStates.has(names[i]!)).length;
    const chosen =
        view.threads === null
            ? "all"
            : view.threads.size === 1
              ? profile.threads[[...view.threads][0]!]!.name
              : `${view.threads.size} of ${profile.threads.length}`;
    return (
        <>
            <Menu label="Threads" summary={chosen} active={view.threads !== null}>
                <Choices
                    unit={unit}
                    total={weights.total}
                    choices={profile.threads.map((thread, i) => ({
                        label: thread.name || "unnamed",
                        detail: thread.nativeId > 0 ? String(thread.nativeId) : "",
                        value: weights.ofThread[i]!,
                        on: threadOn(i),
                    }))}
                    onToggle={(i) => setThreads(toggled(view.threads ?? all(), i))}
                    onOnly={(i) => setThreads(new Set([i]))}
                    onAll={() => props.onChange({ threads: null })}
                />
            </Menu>
            {states.length > 0 && profile.states.length > 0 && (
                <Menu
                    label="States"
                    summary={
                        hiddenHere === 0
                            ? "all"
                            : `${states.length - hiddenHere} of ${states.length}`
                    }
                    active={states.some(
                        (i) => names[i] !== PARKED && view.hiddenStates.has(names[i]!),
                    )}
                >
                    <Choices
                        unit={unit}
                        total={weights.total}
                        choices={states.map((i) => ({
                            label: names[i] || "no state",
                            detail: "",
                            value: weights.ofState[i]!,
                            on: !view.hiddenStates.has(names[i]!),
                        }))}
                        onToggle={(i) =>
                            props.onChange({
                                hiddenStates: toggled(view.hiddenStates, names[states[i]!]!),
                            })
                        }
                        onOnly={(i) =>
                            props.onChange({
                                hiddenStates: new Set(
                                    names.filter((name) => name !== names[states[i]!]),
                                ),
                            })
                        }
                        onAll={() => props.onChange({ hiddenStates: new Set() })}
                    />
                </Menu>
            )}
        </>
    );
}

export function Notes(props: {
    profile: Profile;
    children: ComponentChildren;
}): JSX.Element | null {
    const { notes } = props.profile;
    if (notes.length === 0 && !props.children) {
        return null;
    }
    return (
        <ul class="notes" aria-label="Notes">
            {props.children}
            {notes.map((note, i) => (
                <li key={i}>{note}</li>
            ))}
        </ul>
    );
}

/** How much is shown, of how much, and for time: how many cores or threads that is on average. */
export function Summary(props: {
    profile: Profile;
    type: string;
    unit: string;
    weights: Weights;
}): JSX.Element {
    const { profile, type, unit, weights } = props;
    const average = weights.total / profile.durationNs;
    const noun = type === "cpu-time" ? "cores" : type === "wall-time" ? "threads" : "";
    return (
        <p class="summary">
            <b>{formatValue(weights.total, unit)}</b> {type}
            {noun !== "" && profile.durationNs > 0 && (
                <span>
                    {" "}
                    · {average.toFixed(average < 10 ? 2 : 1)} {noun} on average
                </span>
            )}
            {weights.total < weights.unfiltered && (
                <span>
                    {" "}
                    · {formatPercent(weights.total, weights.unfiltered)} of{" "}
                    {formatValue(weights.unfiltered, unit)} recorded
                </span>
            )}
        </p>
    );
}

export function Empty(props: {
    profile: Profile;
    view: View;
    weights: Weights;
    onReset(): void;
}): JSX.Element {
    const type = props.profile.types[props.view.type]!.type;
    return (
        <main class="empty">
            <div role="status">
                {props.weights.unfiltered === 0 ? (
                    <>
                        <h2>No samples of this type</h2>
                        <p>This profile has nothing for {type}. Choose another type above.</p>
                    </>
                ) : (
                    <>
                        <h2>No samples pass the filters</h2>
                        <p>
                            The profile has{" "}
                            {formatValue(
                                props.weights.unfiltered,
                                props.profile.types[props.view.type]!.unit,
                            )}{" "}
                            of {type}, none of it in the chosen threads and states.
                        </p>
                        <button type="button" class="control" onClick={props.onReset}>
                            Show everything
                        </button>
                    </>
                )}
            </div>
        </main>
    );
}
