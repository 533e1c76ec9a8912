// Graphviz, a script of its own: it is larger than all the rest, and only the call graph needs it.
import { instance } from "@viz-js/viz";
import type { Draw } from "./callgraph";

const draw: Draw = async (graph) => (await instance()).renderSVGElement(graph);

(globalThis as { pyrometerDraw?: Draw }).pyrometerDraw = draw;
