// What profiling itself costs, what it lost, and how it is set: from the windows' documents.
import type { JSX } from "preact";
import { formatPercent, formatValue } from "../flamegraph/format";
import type { WindowDocument, Windows } from "./api";
import { Shown } from "./asked";
import { nameOf, newestOfEach, type Process } from "./processes";
import { Rows, type Column } from "./rows";
import { useQuestion, type ViewProps } from "./view";

interface Row {
    readonly process: Process;
    readonly cpuNs: number;
    readonly seconds: number;
    readonly bytes: number;
    readonly losses: ReadonlyMap<string, number>;
}

const NANO = 1e9;

/** CPU time of the profiler's own threads in a window. */
function ownCpu(document: WindowDocument): number {
    const { sampler_cpu_ns = 0, export_cpu_ns = 0 } = document.cost ?? {};
    return sampler_cpu_ns + export_cpu_ns;
}

export function rowOf(process: Process): Row {
    const losses = new Map<string, number>();
    let cpuNs = 0;
    let seconds = 0;
    let bytes = 0;
    for (const { cost, ...document } of process.windows) {
        cpuNs += ownCpu({ cost: cost ?? {} });
        const { start_ns = 0, end_ns = 0 } = document.window ?? {};
        seconds += (end_ns - start_ns) / NANO;
        bytes = Math.max(bytes, document.memory?.profiler_bytes ?? 0);
        for (const [reason, count] of Object.entries(document.losses ?? {})) {
            losses.set(reason, (losses.get(reason) ?? 0) + count);
        }
    }
    return { process, cpuNs, seconds, bytes, losses };
}

function number(document: WindowDocument, name: string): number {
    const value = document.tick?.[name];
    return typeof value === "number" ? value : 0;
}

function lost(row: Row): string {
    return row.losses.size === 0
        ? "nothing"
        : [...row.losses].map(([reason, count]) => `${count} ${reason}`).join(", ");
}

const COLUMNS: Column<Row>[] = [
    {
        head: "process",
        text: true,
        cell: (row) => nameOf(row.process.document),
        sort: (row) => nameOf(row.process.document),
    },
    {
        head: "Python",
        text: true,
        cell: (row) => row.process.document.identity?.python ?? "–",
    },
    {
        head: "of one core",
        title: "CPU time of the profiler's own threads, by the time that it watched",
        cell: (row) => formatPercent(row.cpuNs / NANO, row.seconds),
        sort: (row) => (row.seconds > 0 ? row.cpuNs / row.seconds : 0),
    },
    {
        head: "CPU time",
        cell: (row) => formatValue(row.cpuNs, "nanoseconds"),
        sort: (row) => row.cpuNs,
    },
    {
        head: "watched",
        cell: (row) => formatValue(row.seconds * NANO, "nanoseconds"),
        sort: (row) => row.seconds,
    },
    {
        head: "memory",
        cell: (row) => formatValue(row.bytes, "bytes"),
        sort: (row) => row.bytes,
    },
    {
        head: "tick",
        title: "Mean distance of ticks now; longer than set where the budget was tight",
        cell: (row) => formatValue(number(row.process.document, "interval_ns"), "nanoseconds"),
        sort: (row) => number(row.process.document, "interval_ns"),
    },
    {
        head: "late (p99)",
        title: "How late the sampler is woken",
        cell: (row) => formatValue(number(row.process.document, "wake_up_p99_ns"), "nanoseconds"),
        sort: (row) => number(row.process.document, "wake_up_p99_ns"),
    },
    {
        head: "lost",
        text: true,
        cell: lost,
        tone: (row) => (row.losses.size > 0 ? "" : "muted"),
        sort: (row) => row.losses.size,
    },
];

/** Collectors that are not on, and settings that differ, of all processes: text to processes. */
function remarks(rows: readonly Row[]): [text: string, processes: number][] {
    const found = new Map<string, number>();
    const note = (text: string): void => void found.set(text, (found.get(text) ?? 0) + 1);
    for (const { process } of rows) {
        for (const [name, state] of Object.entries(process.document.collectors ?? {})) {
            if (state !== "on") {
                note(`${name}: ${state}`);
            }
        }
        for (const [name, value] of Object.entries(process.document.settings ?? {})) {
            note(`${name} = ${value}`);
        }
    }
    return [...found];
}

export function Cost(props: ViewProps): JSX.Element {
    const asked = useQuestion<Windows>(props, "/api/windows", {});
    return (
        <Shown asked={asked} onRetry={props.again}>
            {(answer) => {
                const rows = newestOfEach(answer.windows).map(rowOf);
                const { cost } = answer;
                const notes = remarks(rows);
                if (rows.length === 0) {
                    return (
                        <section class="view" aria-label="Cost of profiling">
                            <p class="muted">
                                These profiles came without a document, so their cost is not known.
                            </p>
                        </section>
                    );
                }
                return (
                    <section class="view" aria-label="Cost of profiling">
                        <dl class="figures">
                            <Figure
                                label="of one core, a process"
                                value={formatPercent(cost.share_of_a_core, 1)}
                            />
                            <Figure
                                label="memory, at most"
                                value={formatValue(cost.most_bytes, "bytes")}
                            />
                            <Figure label="lost" value={formatValue(cost.lost, "count")} />
                            <Figure
                                label={answer.has_more ? "newest windows" : "windows"}
                                value={String(cost.windows)}
                            />
                        </dl>
                        <Rows label="Cost of profiling" columns={COLUMNS} rows={rows} />
                        {notes.length > 0 && (
                            <details>
                                <summary>
                                    Collectors that are not on, and settings that differ
                                </summary>
                                <ul class="remarks">
                                    {notes.map(([text, processes]) => (
                                        <li key={text}>
                                            <code>{text}</code>
                                            {rows.length > 1 && ` (${processes})`}
                                        </li>
                                    ))}
                                </ul>
                            </details>
                        )}
                    </section>
                );
            }}
        </Shown>
    );
}

function Figure(props: { label: string; value: string }): JSX.Element {
    return (
        <div>
            <dd>{props.value}</dd>
            <dt>{props.label}</dt>
        </div>
    );
}
