// The call graph as Graphviz takes it: the functions that weigh most, and the calls between them.
import type { Graph } from "@viz-js/viz";
import { formatPercent } from "../flamegraph/format";
import type { Calls, Top } from "./api";
import { shortFile } from "./rows";

export type Draw = (graph: Graph) => Promise<SVGSVGElement>;

/** What a picture holds that can still be read. */
const NODES = 40;
const NODE_PART = 0.005;
const EDGE_PART = 0.005;
/** Graphviz knows its widths, and the style sheet names fonts of the same. */
const FONT = "Arial";

export interface Picture {
    readonly graph: Graph;
    /** By the id of the node in the drawing. */
    readonly names: ReadonlyMap<string, string>;
    readonly hidden: number;
}

const KEY = (name: string, file: string): string => JSON.stringify([name, file]);

/** Between an edge, which may be thick, and its label: plain blanks would not be drawn. */
const GAP = "\u00a0\u00a0";

/** A backslash means something in Graphviz's labels. */
function plain(text: string, most: number): string {
    const short = text.length > most ? `${text.slice(0, most - 1)}…` : text;
    return short.replace(/\\/g, "\\\\");
}

export function pictureOf(top: Top, calls: Calls): Picture {
    const rows = top.rows.filter((row) => row.total >= NODE_PART * top.total).slice(0, NODES);
    const ids = new Map(rows.map((row, i) => [KEY(row.name, row.file), `n${i}`]));
    const nodes = rows.map((row, i) => {
        const part = row.total / top.total;
        return {
            name: `n${i}`,
            attributes: {
                id: `n${i}`,
                class: `node heat${Math.min(4, Math.floor((row.self / top.total) * 10))}`,
                label:
                    `${plain(row.name, 48)}\n${plain(shortFile(row.file), 48)}\n` +
                    `${formatPercent(row.total, top.total)}, self ${formatPercent(row.self, top.total)}`,
                fontsize: (9 + 7 * Math.sqrt(part)).toFixed(1),
                tooltip: plain(`${row.name} (${row.file})`, 400),
            },
        };
    });
    const edges = calls.edges.flatMap(([caller, callerFile, callee, calleeFile, value]) => {
        const tail = ids.get(KEY(caller, callerFile));
        const head = ids.get(KEY(callee, calleeFile));
        const part = value / top.total;
        return tail === undefined || head === undefined || part < EDGE_PART
            ? []
            : [
                  {
                      tail,
                      head,
                      attributes: {
                          label: `${GAP}${formatPercent(value, top.total)}`,
                          penwidth: (0.6 + 5 * part).toFixed(2),
                          weight: Math.max(1, Math.round(part * 100)),
                          arrowsize: "0.6",
                          tooltip: plain(`${caller} → ${callee}`, 400),
                      },
                  },
              ];
    });
    return {
        names: new Map(rows.map((row, i) => [`n${i}`, row.name])),
        hidden: Math.max(0, top.rows.length - rows.length),
        graph: {
            graphAttributes: { bgcolor: "transparent", nodesep: "0.2", ranksep: "0.35" },
            nodeAttributes: {
                shape: "box",
                style: "filled,rounded",
                fontname: FONT,
                margin: "0.2,0.08",
            },
            edgeAttributes: { fontsize: "9", fontname: FONT },
            nodes,
            edges,
        },
    };
}
