// Places whose live memory grows, as the agent's windows judge them; the newest window of each
// process counts, and processes are added up.
import type { JSX } from "preact";
import { formatPercent, formatValue } from "../flamegraph/format";
import type { LeakSite, Windows } from "./api";
import { Shown } from "./asked";
import { newestOfEach } from "./processes";
import { Place, Rows, type Column } from "./rows";
import { lookAt, useQuestion, type ViewProps } from "./view";

interface Site extends LeakSite {
    processes: number;
}

/** One row a place: growth and size summed over processes, the surest of their verdicts. */
export function sumSites(documents: readonly (readonly LeakSite[])[]): Site[] {
    const sites = new Map<string, Site>();
    for (const list of documents) {
        const seen = new Set<Site>();
        for (const site of list) {
            const key = JSON.stringify([site.function, site.file, site.line, site.caller]);
            const old = sites.get(key);
            const sum = old ?? { ...site, processes: 0 };
            if (old) {
                sum.live_bytes += site.live_bytes;
                sum.growth_bytes_per_s += site.growth_bytes_per_s;
                sum.confidence = Math.max(sum.confidence, site.confidence);
                sum.windows = Math.max(sum.windows, site.windows);
                sum.suspect ||= site.suspect;
            }
            sum.processes += seen.has(sum) ? 0 : 1;
            seen.add(sum);
            sites.set(key, sum);
        }
    }
    return [...sites.values()].sort(
        (a, b) =>
            Number(b.suspect) - Number(a.suspect) ||
            b.growth_bytes_per_s - a.growth_bytes_per_s ||
            b.live_bytes - a.live_bytes,
    );
}

const HOUR = 3600;
/** The agent judges no sooner. */
const WINDOWS_NEEDED = 10;

function growth(site: Site): string {
    const perHour = site.growth_bytes_per_s * HOUR;
    return site.windows < WINDOWS_NEEDED || Math.abs(perHour) < 1
        ? "–"
        : `${perHour < 0 ? "−" : "+"}${formatValue(Math.abs(perHour), "bytes")}/h`;
}

/** The agent suspects what surely grows, still grows, and does not level off. */
function verdict(site: Site): string {
    if (site.suspect) {
        return "grows";
    }
    if (site.windows < WINDOWS_NEEDED) {
        return `too early (${site.windows}/${WINDOWS_NEEDED})`;
    }
    return site.confidence > 0.95 && site.growth_bytes_per_s > 0 ? "grew, not now" : "no sign";
}

/** "function (file:line)", as the document has it. */
function Caller(props: { text: string; onLook(name: string): void }): JSX.Element {
    const parts = /^(.*) \((.*):(\d+)\)$/.exec(props.text);
    return parts ? (
        <Place name={parts[1]!} file={parts[2]!} line={Number(parts[3])} onLook={props.onLook} />
    ) : (
        <span class="muted">{props.text}</span>
    );
}

export function Leaks(props: ViewProps): JSX.Element {
    const asked = useQuestion<Windows>(props, "/api/windows", {});
    const look = lookAt(props, "heap-space");
    const columns: Column<Site>[] = [
        {
            head: "allocated in",
            text: true,
            cell: (row) => (
                <Place name={row.function} file={row.file} line={row.line} onLook={look} />
            ),
            sort: (row) => row.function,
        },
        {
            head: "called by",
            text: true,
            cell: (row) => <Caller text={row.caller ?? ""} onLook={look} />,
        },
        {
            head: "verdict",
            text: true,
            cell: verdict,
            tone: (row) => (row.suspect ? "worse" : "muted"),
            sort: (row) => (row.suspect ? 0 : 1),
        },
        { head: "growth", cell: growth, sort: (row) => row.growth_bytes_per_s },
        {
            head: "sure it grows",
            title: "How sure it is that this grows",
            cell: (row) => (row.windows < WINDOWS_NEEDED ? "–" : formatPercent(row.confidence, 1)),
            sort: (row) => row.confidence,
        },
        {
            head: "alive",
            cell: (row) => formatValue(row.live_bytes, "bytes"),
            sort: (row) => row.live_bytes,
        },
        { head: "processes", cell: (row) => row.processes, sort: (row) => row.processes },
    ];
    return (
        <Shown asked={asked} onRetry={props.again}>
            {(answer) => {
                const newest = newestOfEach(answer.windows);
                const sites = sumSites(newest.map(({ document }) => document.leak_sites ?? []));
                const suspects = sites.filter((site) => site.suspect).length;
                const early = sites.every((site) => site.windows < WINDOWS_NEEDED);
                return (
                    <section class="view" aria-label="Leak suspects">
                        <p class="muted">
                            {sites.length === 0
                                ? "No memory is known to be alive: is the memory collector on?"
                                : suspects > 0
                                  ? `${suspects} ${suspects === 1 ? "place grows" : "places grow"} and may leak. `
                                  : early
                                    ? `Too early to judge: it takes ${WINDOWS_NEEDED} windows of a process. `
                                    : "Nothing is suspected. "}
                            {sites.length > 0 &&
                                (newest.length === 1
                                    ? "From the newest window of one process."
                                    : `From the newest windows of ${newest.length} processes.`)}
                        </p>
                        {sites.length > 0 && (
                            <Rows
                                label="Leak suspects"
                                columns={columns}
                                rows={sites}
                                tone={(row) => (row.suspect ? "" : "pale")}
                            />
                        )}
                    </section>
                );
            }}
        </Shown>
    );
}
