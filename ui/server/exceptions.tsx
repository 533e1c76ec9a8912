// Exceptions by type, and for the chosen one, where it is raised.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatPercent, formatValue } from "../flamegraph/format";
import type { Cost, Lines, Top } from "./api";
import { Message, Shown } from "./asked";
import { withFilter } from "./choice";
import { Place, Rows, Share, type Column } from "./rows";
import { lookAt, useQuestion, type ViewProps } from "./view";

/** By what exceptions are told: raises are counted, or (Python 3.11) the time that handling takes. */
interface Kind {
    readonly type: string;
    readonly label: string;
    readonly head: string;
    readonly by: string;
}

const RAISED: Kind = {
    type: "exception-samples",
    label: "exception type",
    head: "raised",
    by: "raised",
};
const HANDLED: Kind = {
    type: "wall-time",
    label: "handling exception",
    head: "time handling it",
    by: "handled",
};

type Line = Lines["lines"][number];

export function Exceptions(props: ViewProps): JSX.Element {
    const raised = useQuestion<Lines>(props, "/api/totals", {
        type: RAISED.type,
        by: RAISED.label,
        limit: "200",
    });
    const lacks = raised.error?.code === 404;
    const handled = useQuestion<Lines>(
        props,
        "/api/totals",
        lacks ? { type: HANDLED.type, by: HANDLED.label, limit: "200" } : null,
    );
    const kind = lacks ? HANDLED : RAISED;
    if (lacks && handled.error?.code === 404) {
        return <None kind={kind} />;
    }
    return (
        <Shown asked={lacks ? handled : raised} onRetry={props.again}>
            {(answer) => <Types {...props} answer={answer} kind={kind} />}
        </Shown>
    );
}

function None(props: { kind: Kind }): JSX.Element {
    return (
        <Message title="No exceptions in this time">
            {props.kind === HANDLED && (
                <p>
                    These profiles do not count raises (Python 3.12 and later do); only time spent
                    on handling them would show.
                </p>
            )}
        </Message>
    );
}

function Types(props: ViewProps & { answer: Lines; kind: Kind }): JSX.Element {
    const { answer, kind } = props;
    const lines = answer.lines.filter((line) => line.name !== "" && line.sum > 0);
    const whole = lines.reduce((sum, line) => sum + line.sum, 0);
    const [name, setName] = useState("");
    const chosen = lines.find((line) => line.name === name) ?? lines[0];
    if (!chosen) {
        return <None kind={kind} />;
    }
    const columns: Column<Line>[] = [
        { head: "exception", text: true, cell: (row) => row.name, sort: (row) => row.name },
        {
            head: kind.head,
            cell: (row) => (
                <Share part={row.sum} whole={whole}>
                    {formatValue(row.sum, answer.unit)}
                </Share>
            ),
            sort: (row) => row.sum,
        },
        {
            head: "share",
            cell: (row) => formatPercent(row.sum, whole),
            sort: (row) => row.sum,
        },
    ];
    return (
        <section class="view halves" aria-label="Exceptions">
            <div class="half">
                <p class="muted">
                    {formatValue(whole, answer.unit)} {kind.by}, {lines.length}{" "}
                    {lines.length === 1 ? "type" : "types"}.
                    {kind === HANDLED && " These profiles do not count raises."}
                </p>
                <Rows
                    label="Exceptions"
                    columns={columns}
                    rows={lines}
                    chosen={chosen}
                    onChoose={(row) => setName(row.name)}
                />
            </div>
            <div class="half">
                <Where {...props} key={chosen.name} exception={chosen.name} />
            </div>
        </section>
    );
}

function Where(props: ViewProps & { kind: Kind; exception: string }): JSX.Element {
    const { kind, exception, choice, change } = props;
    const asked = useQuestion<Top>(props, "/api/top", {
        type: kind.type,
        order: "self",
        limit: "100",
        where: `${kind.label}=${exception}`,
    });
    const look = lookAt(props, kind.type);
    return (
        <Shown asked={asked} onRetry={props.again}>
            {(top) => {
                const columns: Column<Cost>[] = [
                    {
                        head: `${kind.by} in`,
                        text: true,
                        cell: (row) => <Place name={row.name} file={row.file} onLook={look} />,
                        sort: (row) => row.name,
                    },
                    {
                        head: "here",
                        title: "By this function itself",
                        cell: (row) => (
                            <Share part={row.self} whole={top.total}>
                                {formatValue(row.self, top.unit)}
                            </Share>
                        ),
                        sort: (row) => row.self,
                    },
                    {
                        head: "here and below",
                        title: "By this function or one that it called",
                        cell: (row) => formatValue(row.total, top.unit),
                        sort: (row) => row.total,
                    },
                ];
                return (
                    <>
                        <p class="muted">
                            <b>{exception}</b>{" "}
                            <button
                                class="link"
                                onClick={() =>
                                    change({
                                        view: "graph",
                                        type: kind.type,
                                        where: withFilter(choice, kind.label, exception),
                                    })
                                }
                            >
                                its flame graph
                            </button>
                        </p>
                        <Rows
                            label={`Where ${exception} is raised`}
                            columns={columns}
                            rows={top.rows.filter((row) => row.self > 0)}
                        />
                    </>
                );
            }}
        </Shown>
    );
}
