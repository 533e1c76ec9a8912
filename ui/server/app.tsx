// The server's page: what is looked at is chosen here, above the views.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useTheme } from "../flamegraph/theme";
import { askJson, setToken, type Lines, type Service } from "./api";
import { Failure, Message, useAsked } from "./asked";
import { Calls } from "./calls";
import { Changes } from "./changes";
import { Chart, LINES } from "./chart";
import {
    argumentsOf,
    decodeChoice,
    encodeChoice,
    filterKey,
    ofService,
    SPANS,
    VIEWS,
    type Choice,
    type ViewName,
} from "./choice";
import { Select, Where } from "./controls";
import { Cost } from "./cost";
import { Exceptions } from "./exceptions";
import { FlameGraph } from "./flame";
import { Leaks } from "./leaks";
import { Timeline } from "./timeline";
import { nowSeconds, useQuestion, type ViewProps } from "./view";
import { Waits } from "./waits";

type Shown = Exclude<ViewName, "graph">;

const SHOW: Record<Shown, (props: ViewProps) => JSX.Element> = {
    calls: Calls,
    timeline: Timeline,
    waits: Waits,
    exceptions: Exceptions,
    leaks: Leaks,
    changes: Changes,
    cost: Cost,
};

const NAMES: Record<ViewName, readonly [label: string, title: string]> = {
    graph: ["Flame graph", "Where the time, memory or waiting goes"],
    calls: ["Call graph", "Who calls whom"],
    timeline: ["Timeline", "What each thread did in one window"],
    waits: ["Waits", "Who waited because of whom"],
    exceptions: ["Exceptions", "What is raised, and where"],
    leaks: ["Leaks", "Where live memory grows"],
    changes: ["Changes", "What got worse or better"],
    cost: ["Profiler", "What profiling itself costs, and what it lost"],
};

/** Of the flame graph's own part of the address, what means the same for other profiles. */
function lastingFragment(): string {
    const old = new URLSearchParams(location.hash.slice(1));
    const kept = new URLSearchParams();
    for (const name of ["q", "inverted", "lines"]) {
        const value = old.get(name);
        if (value !== null) {
            kept.set(name, value);
        }
    }
    const text = kept.toString();
    return text === "" ? "" : `#${text}`;
}

function useChoice(): [Choice, (part: Partial<Choice>) => void] {
    const [choice, setChoice] = useState(() => decodeChoice(location.search));
    const current = useRef(choice);
    current.current = choice;
    useEffect(() => {
        const listen = (): void => setChoice(decodeChoice(location.search));
        addEventListener("popstate", listen);
        return () => removeEventListener("popstate", listen);
    }, []);
    const change = useCallback((part: Partial<Choice>) => {
        const old = current.current;
        const next = { ...old, ...part };
        const same = filterKey(old) === filterKey(next) && old.view === next.view;
        const fragment = same ? location.hash : lastingFragment();
        if (encodeChoice(next) !== encodeChoice(old)) {
            history.pushState(null, "", `${location.pathname}${encodeChoice(next)}${fragment}`);
        }
        current.current = next;
        setChoice(next);
    }, []);
    return [choice, change];
}

function Token(props: { onDone(): void }): JSX.Element {
    const [text, setText] = useState("");
    return (
        <form
            class="message"
            onSubmit={(event) => {
                event.preventDefault();
                setToken(text);
                props.onDone();
            }}
        >
            <h2>This server asks for a token</h2>
            <p>It is the content of the file that it was started with as --read-token-file.</p>
            <input
                class="control"
                type="password"
                aria-label="Token"
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
            />
            <button class="control">Go on</button>
        </form>
    );
}

function NoServices(): JSX.Element {
    return (
        <Message title="No profiles yet">
            <p>Start a program with the profiler on; it finds this server by itself:</p>
            <pre>pyrometer run python app.py</pre>
            <p>or send a file:</p>
            <pre>{`curl --data-binary @FILE '${location.origin}/api/upload?service=NAME'`}</pre>
        </Message>
    );
}

const SPLITS = ["function", "version", "host", "pid", "thread name", "state", "trace endpoint"];

/** Names of labels, the values of three of them, and sample types: what can be chosen from. */
function useOffers(choice: Choice, round: number) {
    const wide = useMemo(
        () => ({ ...choice, env: "", version: "", host: "", where: [] }),
        [choice.service, choice.range],
    );
    const ready = choice.service !== "";
    const labels = useAsked<Record<"env" | "version" | "host" | "", readonly string[]>>(
        ready
            ? async (signal) => {
                  const list = async (name: string): Promise<string[]> => {
                      const query = argumentsOf(wide, nowSeconds());
                      if (name !== "") {
                          query.set("name", name);
                      }
                      const answer = await askJson<{ names?: string[]; values?: string[] }>(
                          "/api/labels",
                          query,
                          signal,
                      );
                      return (answer.values ?? answer.names ?? []).sort();
                  };
                  const [env, version, host, all] = await Promise.all(
                      ["env", "version", "host", ""].map(list),
                  );
                  return { env: env!, version: version!, host: host!, "": all! };
              }
            : null,
        [wide, round],
    );
    const types = useQuestion<{ types: { type: string }[] }>(
        { choice: wide, round },
        "/api/types",
        ready ? {} : null,
    );
    return {
        labels: labels.value ?? { env: [], version: [], host: [], "": [] },
        types: types.value?.types.map((item) => item.type) ?? [],
    };
}

export function ServerApp(): JSX.Element {
    const [choice, change] = useChoice();
    const [round, setRound] = useState(0);
    const again = useCallback(() => setRound((old) => old + 1), []);
    const theme = useTheme();
    const services = useAsked(
        async (signal) =>
            (
                await askJson<{ services: Service[] }>(
                    "/api/services",
                    new URLSearchParams(),
                    signal,
                )
            ).services.sort((a, b) => (BigInt(b.last_ns) > BigInt(a.last_ns) ? 1 : -1)),
        [round],
    );
    const names = services.value?.map((item) => item.service) ?? [];
    const service = choice.service !== "" ? choice.service : (names[0] ?? "");
    const asked = useMemo(() => ({ ...choice, service }), [choice, service]);
    const ready = service !== "" && services.value !== null;
    const { labels, types } = useOffers(asked, round);
    const lines = useQuestion<Lines>(
        { choice: asked, round },
        "/api/series",
        ready ? { type: choice.type, by: choice.split, limit: String(LINES) } : null,
    );
    useEffect(() => {
        const { 0: label } = NAMES[choice.view];
        document.title =
            service === ""
                ? "Pyrometer"
                : choice.view === "graph"
                  ? `${service} · Pyrometer`
                  : `${service} · ${label} · Pyrometer`;
    }, [service, choice.view]);
    useKeys(choice, change, theme.next);

    const props: ViewProps = {
        choice: asked,
        round,
        palette: theme.palette,
        versions: labels.version,
        change,
        again,
    };
    const View = choice.view === "graph" ? null : SHOW[choice.view];
    const ranges = (SPANS as readonly string[]).includes(choice.range)
        ? SPANS
        : [choice.range, ...SPANS];
    const all = (values: readonly string[]) => [
        ["", "all"] as const,
        ...values.map((item) => [item, item] as const),
    ];
    return (
        <div class="server">
            <header class="toolbar chooser" aria-label="What to look at">
                <strong class="brand">Pyrometer</strong>
                <Select
                    label="service"
                    value={service}
                    items={names.map((item) => [item, item])}
                    onChange={(value) => change(ofService(value))}
                />
                <Select
                    label="time"
                    value={choice.range}
                    items={ranges.map((item) => [
                        item,
                        item.includes("-") ? chosenTime(item) : `last ${item}`,
                    ])}
                    onChange={(range) => change({ range, profile: "" })}
                />
                {(["env", "version", "host"] as const).map((name) =>
                    labels[name].length > 1 || choice[name] !== "" ? (
                        <Select
                            key={name}
                            label={name}
                            value={choice[name]}
                            items={all(labels[name])}
                            onChange={(value) => change({ [name]: value, profile: "" })}
                        />
                    ) : null,
                )}
                <Where
                    items={choice.where}
                    names={labels[""]}
                    onChange={(where) => change({ where })}
                />
                <button class="control" onClick={again} title="Ask again">
                    Reload
                </button>
                <button
                    class="control icon"
                    aria-label={`Theme: ${theme.choice}`}
                    title={`Theme: ${theme.choice} (t)`}
                    onClick={theme.next}
                >
                    {theme.palette.dark ? "☾" : "☀"}
                </button>
            </header>
            {services.error?.code === 401 ? (
                <Token onDone={again} />
            ) : services.error ? (
                <Failure error={services.error} onRetry={again} />
            ) : services.value?.length === 0 ? (
                <NoServices />
            ) : !ready ? (
                <div class="message">
                    <p>Loading…</p>
                </div>
            ) : (
                <>
                    {lines.value && lines.value.lines.some((line) => line.sum > 0) && (
                        <Chart
                            lines={lines.value}
                            palette={theme.palette}
                            types={choice.view === "graph" ? [] : types}
                            split={choice.split}
                            splits={SPLITS.filter(
                                (name) => name === "function" || labels[""].includes(name),
                            )}
                            onType={(type) => change({ type })}
                            onSplit={(split) => change({ split })}
                            onRange={(from, until) =>
                                change({ range: `${from}-${until}`, profile: "" })
                            }
                        />
                    )}
                    <nav class="views" aria-label="View">
                        {VIEWS.map((view, i) => (
                            <button
                                key={view}
                                aria-current={choice.view === view ? "page" : undefined}
                                title={`${NAMES[view][1]} (${i + 1})`}
                                onClick={() => change({ view })}
                            >
                                {NAMES[view][0]}
                            </button>
                        ))}
                    </nav>
                    <main class="body">
                        {View ? (
                            <View {...props} key={choice.view} />
                        ) : (
                            <FlameGraph {...props} theme={theme} />
                        )}
                    </main>
                </>
            )}
        </div>
    );
}

/** Two times as people write them, the day only where it differs from the other. */
function chosenTime(range: string): string {
    const [from, until] = range.split("-").map((part) => new Date(Number(part) * 1000));
    if (!from || !until || Number.isNaN(from.getTime()) || Number.isNaN(until.getTime())) {
        return "chosen time";
    }
    const sameDay = from.toDateString() === until.toDateString();
    const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
    const end = sameDay ? until.toLocaleTimeString([], time) : until.toLocaleString();
    return `${from.toLocaleString([], { month: "short", day: "numeric", ...time })} – ${end}`;
}

/** Digits choose a view; where the flame graph is shown, letters are its own. */
function useKeys(
    choice: Choice,
    change: (part: Partial<Choice>) => void,
    nextTheme: () => void,
): void {
    const act = useRef((_event: KeyboardEvent) => {});
    act.current = (event) => {
        const typing =
            event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
        if (typing || event.ctrlKey || event.metaKey || event.altKey) {
            return;
        }
        const inLanes = event.target instanceof Element && event.target.closest(".lanes");
        const view = VIEWS[Number(event.key) - 1];
        if (view && !inLanes) {
            change({ view });
        } else if (event.key === "t" && choice.view !== "graph") {
            nextTheme();
        }
    };
    useEffect(() => {
        const listen = (event: KeyboardEvent): void => act.current(event);
        addEventListener("keydown", listen);
        return () => removeEventListener("keydown", listen);
    }, []);
}
