// Draws a tree into a canvas: only boxes on screen, so the cost depends on pixels and not on the
// profile.
import { colorOf } from "./color";
import { visitVisible, type Window } from "./layout";
import type { Symbols } from "./symbols";
import { shortPlaceOf } from "./symbols";
import type { Palette } from "./theme";
import type { Tree } from "./tree";

export const ROW = 20;
const FONT_SIZE = 12;
const FONT = `${FONT_SIZE}px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif`;
const PADDING = 4;
const MIN_TEXT = 22;

export interface Scene {
    readonly tree: Tree;
    readonly symbols: Symbols;
    readonly rootLabel: string;
    /** Root at the bottom, for callers. */
    readonly flipped: boolean;
    readonly view: Window;
    readonly zoomed: number;
    readonly hovered: number;
    readonly selected: number;
    /** Boxes of this symbol are outlined; -1 for none. */
    readonly marked: number;
    readonly matched: Uint8Array | null;
}

/** Draws scenes of one profile in one palette; keeps text widths and fills. */
export class Painter {
    private readonly fill: (string | CanvasPattern)[];
    private readonly textWidth = new Map<string, number>();
    private readonly context: CanvasRenderingContext2D;

    constructor(
        canvas: HTMLCanvasElement,
        symbols: Symbols,
        private readonly palette: Palette,
    ) {
        this.context = canvas.getContext("2d", { alpha: false })!;
        const hatch = hatching(this.context, palette);
        this.fill = symbols.kind.map((kind, i) =>
            kind === "synthetic" ? hatch : colorOf(kind, symbols.origin[i]!, palette.dark),
        );
    }

    draw(scene: Scene, width: number, height: number, scroll: number): void {
        const { context, palette } = this;
        const ratio = window.devicePixelRatio || 1;
        const canvas = context.canvas;
        const deviceWidth = Math.max(1, Math.round(width * ratio));
        const deviceHeight = Math.max(1, Math.round(height * ratio));
        if (canvas.width !== deviceWidth || canvas.height !== deviceHeight) {
            canvas.width = deviceWidth;
            canvas.height = deviceHeight;
        }
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.globalAlpha = 1;
        context.fillStyle = palette.background;
        context.fillRect(0, 0, width, height);
        context.font = FONT;
        context.textBaseline = "middle";

        const rows = scene.tree.maxDepth + 1;
        const top = (row: number): number => rowTop(row, rows, height, scroll, scene.flipped);
        const first = rowAt(scene.flipped ? height : 0, rows, height, scroll, scene.flipped);
        const last = rowAt(scene.flipped ? 0 : height, rows, height, scroll, scene.flipped);
        visitVisible(scene.tree, scene.view, width, Math.max(0, first), Math.min(rows - 1, last), {
            box: (node, x, boxWidth) =>
                this.box(scene, node, x, top(scene.tree.depth[node]!), boxWidth),
            rest: (parent, x, restWidth) => {
                context.globalAlpha = 1;
                context.fillStyle = palette.rest;
                context.fillRect(x, top(scene.tree.depth[parent]! + 1), restWidth, ROW - 1);
            },
        });
    }

    private box(scene: Scene, node: number, x: number, y: number, width: number): void {
        const { context, palette } = this;
        const symbol = scene.tree.symbol[node]!;
        const matches = symbol >= 0 && scene.matched !== null && scene.matched[symbol] === 1;
        const above = node < scene.zoomed && scene.tree.end[node]! > scene.zoomed;
        const dimmed = scene.matched !== null && !matches;
        const drawn = width > 3 ? width - 1 : width;
        context.globalAlpha = dimmed ? 0.38 : above ? 0.55 : 1;
        context.fillStyle = matches
            ? palette.match
            : symbol < 0
              ? palette.rootBox
              : this.fill[symbol]!;
        context.fillRect(x, y, drawn, ROW - 1);
        if (node === scene.hovered) {
            context.globalAlpha = palette.dark ? 0.16 : 0.12;
            context.fillStyle = palette.select;
            context.fillRect(x, y, drawn, ROW - 1);
        }
        context.globalAlpha = dimmed ? 0.7 : above ? 0.8 : 1;
        if (width >= MIN_TEXT) {
            this.label(scene, symbol, x + PADDING, y, drawn - 2 * PADDING);
        }
        if (node === scene.selected || (symbol >= 0 && symbol === scene.marked)) {
            const line = node === scene.selected ? 2 : 1;
            context.globalAlpha = 1;
            if (width > 2 * line) {
                context.strokeStyle = palette.select;
                context.lineWidth = line;
                context.strokeRect(x + line / 2, y + line / 2, drawn - line, ROW - 1 - line);
            } else {
                context.fillStyle = palette.select;
                context.fillRect(x, y, Math.max(1, width), ROW - 1);
            }
        }
    }

    private label(scene: Scene, symbol: number, x: number, y: number, room: number): void {
        const { context, palette } = this;
        const name = symbol < 0 ? scene.rootLabel : scene.symbols.name[symbol]!;
        const middle = y + ROW / 2;
        const nameWidth = this.widthOf(name);
        context.fillStyle = palette.text;
        if (nameWidth > room) {
            context.fillText(shorten(name, nameWidth, room - this.widthOf("…")), x, middle, room);
            return;
        }
        context.fillText(name, x, middle);
        const place = symbol < 0 ? "" : shortPlaceOf(scene.symbols, symbol);
        if (place !== "" && nameWidth + 10 + this.widthOf(place) <= room) {
            context.fillStyle = palette.muted;
            context.fillText(place, x + nameWidth + 10, middle);
        }
    }

    private widthOf(text: string): number {
        let width = this.textWidth.get(text);
        if (width === undefined) {
            width = this.context.measureText(text).width;
            this.textWidth.set(text, width);
        }
        return width;
    }
}

/** A prefix and an ellipsis that take about the room; the caller squeezes what is over. */
function shorten(text: string, width: number, room: number): string {
    let length = Math.floor((text.length * room) / width);
    if (
        length > 0 &&
        text.charCodeAt(length - 1) >= 0xd800 &&
        text.charCodeAt(length - 1) < 0xdc00
    ) {
        length--; // not half of a character
    }
    return length < 1 ? "" : `${text.slice(0, length)}…`;
}

function hatching(context: CanvasRenderingContext2D, palette: Palette): CanvasPattern | string {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const brush = tile.getContext("2d");
    if (brush === null) {
        return palette.rest;
    }
    brush.fillStyle = palette.rest;
    brush.fillRect(0, 0, 8, 8);
    brush.strokeStyle = palette.hatch;
    brush.lineWidth = 1.5;
    brush.beginPath();
    for (const shift of [-8, 0, 8]) {
        brush.moveTo(shift, 8);
        brush.lineTo(shift + 8, 0);
    }
    brush.stroke();
    return context.createPattern(tile, "repeat") ?? palette.rest;
}

/**
 * Top edge of a row in a graph scrolled by so many pixels; a flipped graph stands on its bottom.
 */
export function rowTop(
    row: number,
    rows: number,
    height: number,
    scroll: number,
    flipped: boolean,
): number {
    return flipped ? Math.max(rows * ROW, height) - (row + 1) * ROW - scroll : row * ROW - scroll;
}

/** The row at a height in pixels; may be outside the tree. */
export function rowAt(
    y: number,
    rows: number,
    height: number,
    scroll: number,
    flipped: boolean,
): number {
    return flipped
        ? Math.floor((Math.max(rows * ROW, height) - scroll - y) / ROW)
        : Math.floor((y + scroll) / ROW);
}
