// Flame graphs on a canvas: a frame is as wide as its cost. Only what is wide enough to be seen is laid out, so
// that the size of the profile does not matter.
import { shortName } from "./names.js";

export const FLAME_ROW_HEIGHT = 21;
const ROW_HEIGHT = FLAME_ROW_HEIGHT, LEAST_WIDTH = 0.6, TEXT_LEAST = 28, PADDING = 5, GAP = 1;
const isAscii = (text) => !/[^\x20-\x7e]/.test(text);

// Rectangles of what is seen: {row, x, width, depth, above}. Rows from the root to the zoomed one are as wide as
// the picture; `hidden` is what is too small to be drawn, in the same units.
export function layOut(root, zoomed, width) {
    const rects = [], above = [];
    for (let row = zoomed; row && row !== root; row = row.parent)
        above.unshift(row);
    const first = { row: root, x: 0, width, depth: 0, above: zoomed !== root };
    rects.push(first);
    above.forEach((row, i) => rects.push({ row, x: 0, width, depth: i + 1, above: row !== zoomed }));
    const scale = zoomed.total ? width / zoomed.total : 0, stack = [rects[rects.length - 1]];
    let depth = rects.length;
    while (stack.length) {
        const rect = stack.pop();
        let x = rect.x;
        for (const row of rect.row.childrenAbove(LEAST_WIDTH / scale)) {
            // Rows in order of time have a place of their own, the others lie side by side.
            const child = { row, x: row.offset === undefined ? x : rect.x + row.offset * scale, width: row.total * scale, depth: rect.depth + 1, above: false };
            rects.push(child);
            stack.push(child);
            x += child.width;
        }
        depth = Math.max(depth, rect.depth + 1);
    }
    return { rects, depth };
}

export class Flame {
    // `hooks`: hover(row or null), choose(row), zoom(row), menu(row).
    constructor(hooks) {
        this.hooks = hooks;
        this.box = document.createElement("div");
        this.box.className = "flame";
        this.canvas = document.createElement("canvas");
        this.canvas.tabIndex = 0;
        this.canvas.setAttribute("role", "application");
        this.space = document.createElement("div");
        this.tip = document.createElement("div");
        this.tip.className = "tip";
        this.tip.hidden = true;
        this.tip.setAttribute("aria-hidden", "true"); // the line below the picture says the same
        this.box.append(this.canvas, this.space, this.tip);
        this.chosen = this.hovered = null;
        this.layout = { rects: [], depth: 0 };
        this.box.addEventListener("scroll", () => this.draw());
        this.canvas.addEventListener("mousemove", (event) => {
            this.hover(this.hit(event));
            this.placeTip(event);
        });
        this.canvas.addEventListener("mouseleave", () => this.hover(null));
        this.canvas.addEventListener("click", (event) => this.click(event));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        this.resizes = new ResizeObserver(() => this.update());
        this.resizes.observe(this.box);
    }

    // What is shown: {root, zoomed, labels, marks, colourOf(row), rootText, title, tipOf(row)}. A row without a label
    // is the root, or has a text of its own.
    show(what) {
        this.what = what;
        this.chosen = what.zoomed === what.root ? null : what.zoomed;
        this.hovered = null;
        this.canvas.setAttribute("aria-label", `${what.title}. Arrow keys move between frames, Enter zooms, Escape ` +
            "zooms out. The tables have the same as text.");
        this.update();
        this.box.scrollTop = 0;
    }

    update() {
        if (!this.what || !this.box.clientWidth)
            return;
        this.width = this.box.clientWidth;
        this.layout = layOut(this.what.root, this.what.zoomed, this.width);
        const height = this.layout.depth * ROW_HEIGHT + 8, seen = this.box.clientHeight;
        this.canvas.style.height = `${seen}px`;
        this.space.style.height = `${Math.max(height - seen, 0)}px`;
        this.byDepth = [];
        for (const rect of this.layout.rects)
            (this.byDepth[rect.depth] ||= []).push(rect);
        for (const row of this.byDepth)
            row.sort((a, b) => a.x - b.x);
        this.draw();
    }

    draw() {
        const ratio = window.devicePixelRatio || 1, height = this.box.clientHeight, { canvas } = this;
        if (!this.what || !this.width)
            return;
        if (canvas.width !== Math.round(this.width * ratio) || canvas.height !== Math.round(height * ratio)) {
            canvas.width = Math.round(this.width * ratio);
            canvas.height = Math.round(height * ratio);
        }
        const context = canvas.getContext("2d"), style = getComputedStyle(this.box);
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, this.width, height);
        context.font = `12px ${style.getPropertyValue("--mono")}`;
        context.textBaseline = "middle";
        this.letter = context.measureText("mmmmmmmmmm").width / 10;
        this.colours = {
            text: style.getPropertyValue("--flame-text").trim(), dim: style.getPropertyValue("--flame-dim").trim(),
            match: style.getPropertyValue("--match").trim(), chosen: style.getPropertyValue("--accent").trim(),
            root: style.getPropertyValue("--flame-root").trim(), ink: style.getPropertyValue("--ink").trim(),
        };
        const first = Math.floor(this.box.scrollTop / ROW_HEIGHT), last = first + Math.ceil(height / ROW_HEIGHT) + 1;
        for (let depth = first; depth <= last && depth < this.byDepth.length; depth++)
            for (const rect of this.byDepth[depth] || [])
                this.drawRect(context, rect);
    }

    fillOf({ row }) {
        const { marks } = this.what;
        if (row.label === null)
            return this.colours.root;
        if (marks)
            return marks[row.label] ? this.colours.match : this.colours.dim;
        return this.what.colourOf(row);
    }

    drawRect(context, rect) {
        const y = rect.depth * ROW_HEIGHT - this.box.scrollTop, { row } = rect;
        const width = Math.max(rect.width - (rect.width > 3 ? GAP : 0), 0.5);
        context.globalAlpha = rect.above ? 0.55 : 1;
        context.fillStyle = this.fillOf(rect);
        context.fillRect(rect.x, y, width, ROW_HEIGHT - GAP);
        if (row === this.chosen || row === this.hovered) {
            context.strokeStyle = row === this.chosen ? this.colours.chosen : this.colours.ink;
            context.lineWidth = row === this.chosen ? 2 : 1;
            context.strokeRect(rect.x + 1, y + 1, Math.max(width - 2, 1), ROW_HEIGHT - GAP - 2);
        }
        if (rect.width < TEXT_LEAST)
            return;
        const room = Math.floor((rect.width - 2 * PADDING) / this.letter);
        context.fillStyle = this.what.marks && row.label !== null && !this.what.marks[row.label]
            ? this.colours.ink : this.colours.text;
        const shown = row.label === null ? (row.text || this.what.rootText).slice(0, room) : shortName(this.what.labels.name(row.label), room);
        if (isAscii(shown.replace(/…/g, ""))) {
            context.fillText(shown, rect.x + PADDING, y + ROW_HEIGHT / 2);
        } else {
            // Letters of other scripts are not all of one width.
            context.save();
            context.beginPath();
            context.rect(rect.x, y, width, ROW_HEIGHT);
            context.clip();
            context.fillText(shown, rect.x + PADDING, y + ROW_HEIGHT / 2);
            context.restore();
        }
    }

    hit(event) {
        const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left;
        const depth = Math.floor((event.clientY - box.top + this.box.scrollTop) / ROW_HEIGHT);
        const rect = (this.byDepth?.[depth] || []).find((one) => x >= one.x && x < one.x + Math.max(one.width, 1));
        return rect ? rect.row : null;
    }

    hover(row) {
        if (row === this.hovered)
            return;
        this.hovered = row;
        this.canvas.style.cursor = row ? "pointer" : "default";
        this.tip.hidden = !row || row.label === null;
        if (!this.tip.hidden)
            this.tip.replaceChildren(...this.what.tipOf(row).map((text) => {
                const line = document.createElement("div");
                line.textContent = text;
                return line;
            }));
        this.draw();
        this.hooks.hover(row);
    }

    // Beside the pointer, and within the window.
    placeTip({ clientX, clientY }) {
        if (this.tip.hidden)
            return;
        const { width, height } = this.tip.getBoundingClientRect(), { innerWidth, innerHeight } = window;
        this.tip.style.left = `${Math.max(Math.min(clientX + 14, innerWidth - width - 6), 4)}px`;
        this.tip.style.top = `${clientY + 22 + height > innerHeight ? Math.max(clientY - height - 10, 4) : clientY + 18}px`;
    }

    click(event) {
        const row = this.hit(event);
        if (!row)
            return;
        this.choose(row);
        if (!event.ctrlKey && !event.shiftKey)
            this.hooks.zoom(row);
    }

    choose(row) {
        this.chosen = row;
        this.draw();
        this.hooks.choose(row);
    }

    rectOf(row) {
        return this.layout.rects.find((rect) => rect.row === row) ||
            this.layout.rects.find((rect) => rect.row === this.what.zoomed);
    }

    // The neighbour of the chosen frame in a direction, as it is seen.
    neighbour(rect, key) {
        const row = this.byDepth[rect.depth], at = row.indexOf(rect);
        switch (key) {
        case "ArrowLeft":
            return row[at - 1];
        case "ArrowRight":
            return row[at + 1];
        case "ArrowUp":
            return (this.byDepth[rect.depth - 1] || []).find((one) => one.x <= rect.x + 0.01 &&
                one.x + one.width >= rect.x + rect.width - 0.01);
        default:
            return (this.byDepth[rect.depth + 1] || []).find((one) => one.x >= rect.x - 0.01 &&
                one.x < rect.x + rect.width);
        }
    }

    key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey)
            return;
        if (event.key.startsWith("Arrow")) {
            const rect = this.rectOf(this.chosen), next = this.chosen ? this.neighbour(rect, event.key) : rect;
            if (next)
                this.choose(next.row);
            this.scrollTo(next || rect);
        } else if (event.key === "Enter" && this.chosen) {
            this.hooks.zoom(this.chosen);
        } else {
            return;
        }
        event.preventDefault();
        event.stopPropagation();
    }

    scrollTo(rect) {
        const y = rect.depth * ROW_HEIGHT, { box } = this;
        if (y < box.scrollTop)
            box.scrollTop = y;
        else if (y + ROW_HEIGHT > box.scrollTop + box.clientHeight)
            box.scrollTop = y + ROW_HEIGHT - box.clientHeight;
    }

    close() {
        this.resizes.disconnect();
    }
}
