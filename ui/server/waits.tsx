// Who waited because of whom, for locks and for the GIL.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatValue } from "../flamegraph/format";
import type { Pair } from "./api";
import { Shown } from "./asked";
import { Segments } from "./controls";
import { Place, Rows, Share, type Column } from "./rows";
import { lookAt, useQuestion, type ViewProps } from "./view";

interface Answer {
    readonly profiles: number;
    readonly has_more: boolean;
    readonly pairs: readonly Pair[];
}

const KIND = { lock: "lock", gil: "GIL" } as const;
/** The sample types of the two sides. */
const WAITS = { lock: "lock-acquire-wait", gil: "gil-wait" } as const;
const HOLDS = { lock: "lock-hold-blocking", gil: "gil-hold-blocking" } as const;

export function Waits(props: ViewProps): JSX.Element {
    const [kind, setKind] = useState<"" | Pair["kind"]>("");
    const asked = useQuestion<Answer>(props, "/api/pairs", {});
    const columnsFor = (whole: number): Column<Pair>[] => [
        {
            head: "waited",
            text: true,
            cell: (row) => (
                <Place
                    name={row.waiter}
                    file={row.waiter_file}
                    onLook={lookAt(props, WAITS[row.kind])}
                />
            ),
            sort: (row) => row.waiter,
        },
        {
            head: "because this one held it",
            text: true,
            cell: (row) => (
                <Place
                    name={row.holder}
                    file={row.holder_file}
                    onLook={lookAt(props, HOLDS[row.kind])}
                />
            ),
            sort: (row) => row.holder,
        },
        { head: "for", text: true, cell: (row) => KIND[row.kind], sort: (row) => row.kind },
        {
            head: "wait",
            cell: (row) => (
                <Share part={row.wait} whole={whole}>
                    {formatValue(row.wait, "nanoseconds")}
                </Share>
            ),
            sort: (row) => row.wait,
        },
        { head: "times", cell: (row) => formatValue(row.count, "count"), sort: (row) => row.count },
        {
            head: "mean",
            cell: (row) => formatValue(row.wait / row.count, "nanoseconds"),
            sort: (row) => row.wait / row.count,
        },
    ];
    return (
        <>
            <div class="toolbar view-controls">
                <Segments<"" | Pair["kind"]>
                    label="What was waited for"
                    value={kind}
                    items={[
                        ["", "All", "Locks and the GIL"],
                        ["lock", "Locks", "Locks of the program"],
                        ["gil", "GIL", "The interpreter's own lock"],
                    ]}
                    onChange={(value) => setKind(value)}
                />
            </div>
            <Shown asked={asked} onRetry={props.again}>
                {(answer) => {
                    const rows = answer.pairs.filter((row) => kind === "" || row.kind === kind);
                    const whole = rows.reduce((sum, row) => sum + row.wait, 0);
                    return (
                        <section class="view" aria-label="Waits">
                            {rows.length === 0 ? (
                                <p class="muted">
                                    Nobody was seen waiting{" "}
                                    {kind === "" ? "for a lock or the GIL" : `for ${KIND[kind]}s`}{" "}
                                    in this time.
                                </p>
                            ) : (
                                <>
                                    <p class="muted">
                                        {formatValue(whole, "nanoseconds")} of waiting, longest
                                        first; from {answer.has_more ? "the newest " : ""}
                                        {answer.profiles} profiles.
                                    </p>
                                    <Rows label="Waits" columns={columnsFor(whole)} rows={rows} />
                                </>
                            )}
                        </section>
                    );
                }}
            </Shown>
        </>
    );
}
