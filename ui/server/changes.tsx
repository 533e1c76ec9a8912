// What changed between two times or versions; what noise explains is pale.
import type { JSX } from "preact";
import { formatPercent, formatValue } from "../flamegraph/format";
import { askJson, type Changes as Answer, type Measure } from "./api";
import { Shown, useAsked } from "./asked";
import { comparisonOf, filterKey } from "./choice";
import { Segments, Select } from "./controls";
import { Place, Rows, type Column } from "./rows";
import { lookAt, nowSeconds, type ViewProps } from "./view";

interface Row {
    readonly name: string;
    readonly file: string;
    readonly total: Measure;
}

function signed(value: number, unit: string): string {
    const text = formatValue(Math.abs(value), unit);
    return value < 0 ? `−${text}` : `+${text}`;
}

function toneOf(measure: Measure): string {
    return !measure.is_significant ? "noise" : measure.change > 0 ? "worse" : "better";
}

function relative(measure: Measure): string {
    if (measure.before <= 0) {
        return measure.after > 0 ? "new" : "–";
    }
    if (measure.after <= 0) {
        return "gone";
    }
    const percent = formatPercent(Math.abs(measure.change), measure.before);
    return `${measure.change < 0 ? "−" : "+"}${percent}`;
}

function columnsOf(unit: string, per: string, onLook: (name: string) => void): Column<Row>[] {
    const of = per === "" ? "" : ` / ${per === "second" ? "s" : per}`;
    return [
        {
            head: "function",
            text: true,
            cell: (row) =>
                row.name === "" ? "all" : <Place name={row.name} file={row.file} onLook={onLook} />,
            sort: (row) => row.name,
        },
        {
            head: `before${of}`,
            cell: (row) => formatValue(row.total.before, unit),
            sort: (row) => row.total.before,
        },
        {
            head: `after${of}`,
            cell: (row) => formatValue(row.total.after, unit),
            sort: (row) => row.total.after,
        },
        {
            head: `change${of}`,
            title: "Of the total, with half of its 95 % interval",
            cell: (row) =>
                signed(row.total.change, unit) +
                (row.total.margin === null ? "" : ` ± ${formatValue(row.total.margin, unit)}`),
            tone: (row) => toneOf(row.total),
            sort: (row) => row.total.change,
        },
        {
            head: "%",
            cell: (row) => relative(row.total),
            tone: (row) => toneOf(row.total),
            sort: (row) =>
                row.total.before > 0
                    ? row.total.change / row.total.before
                    : Number.POSITIVE_INFINITY,
        },
    ];
}

const AGAINST: readonly (readonly [value: string, label: string])[] = [
    ["", "the time before"],
    ["24h", "24h earlier"],
    ["7d", "7d earlier"],
];

export function Changes(props: ViewProps): JSX.Element {
    const { choice, change } = props;
    const asked = useAsked<Answer>(
        (signal) => askJson("/api/diff", comparisonOf(choice, nowSeconds()), signal),
        [filterKey(choice), choice.type, choice.against, choice.per, choice.only, props.round],
    );
    const versions = props.versions.map((item) => [`version:${item}`, `version ${item}`] as const);
    return (
        <>
            <div class="toolbar view-controls">
                <Select
                    label="against"
                    value={choice.against}
                    items={[...AGAINST, ...versions]}
                    onChange={(against) => change({ against })}
                />
                <Segments
                    label="Per"
                    value={choice.per}
                    items={[
                        ["", "Per second", "Of one process"],
                        ["request", "Per request", "Where profiles tell how many were served"],
                    ]}
                    onChange={(per) => change({ per })}
                />
                <Segments
                    label="Which"
                    value={choice.only}
                    items={[
                        ["", "All", "All changes, what noise explains pale"],
                        ["worse", "Worse", "What got worse, beyond noise"],
                    ]}
                    onChange={(only) => change({ only })}
                />
            </div>
            <Shown asked={asked} onRetry={props.again}>
                {(answer) => {
                    const rows: Row[] = answer.rows;
                    const real = rows.filter((row) => row.total.is_significant).length;
                    const per =
                        answer.per === "second"
                            ? ", per second of one process"
                            : answer.per === "request"
                              ? ", per request"
                              : "";
                    return (
                        <section class="view changes" aria-label="What changed">
                            <p class="muted">
                                {answer.type}
                                {per}. {real} of {rows.length} functions shown changed more than
                                noise explains{real < rows.length ? "; the others are pale" : ""}.
                                {answer.per === "request" &&
                                    ` Requests: ${answer.before.requests} before, ` +
                                        `${answer.after.requests} after.`}
                            </p>
                            <Rows
                                label="Changes"
                                columns={columnsOf(answer.unit, answer.per, lookAt(props))}
                                whole={{ name: "", file: "", total: answer.whole }}
                                rows={rows}
                                tone={(row) => (row.total.is_significant ? "" : "pale")}
                            />
                        </section>
                    );
                }}
            </Shown>
        </>
    );
}
