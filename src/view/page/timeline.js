// Time: a line for each thread, and a heat map of seconds and their fractions. A part that is chosen there is what
// all other views look at.
import { NONE } from "./data.js";
import { amountScale, amountText, countText, plural, shareText, shorten, visible } from "./format.js";
import { shortName } from "./names.js";
import { SvgCanvas } from "./picture.js";
import { Table, element } from "./table.js";
import { SECOND, eachTime, labelOfNode, movedWithMarks, nodesWithMarks, rangeOf, secondsText, spanOf, threadsOfNodes } from "./times.js";

const ROW = 24, GUTTER = 170, AXIS = 22, THREADS_MAX = 200, HEAT_ROWS = 50, HEAT_COLUMNS = 240, PARTS = 20, SAMPLES_WIDE = 4, BAR_MAX = 24;

// What is drawn: samples of the chosen metric and threads that no refinement takes away, in order of time.
class Samples {
    constructor(app, profile, metric) {
        this.profile = profile;
        this.threads = threadsOfNodes(profile, app.state);
        this.refined = app.state.refinements.length ? app.baseModel.placed(app.state) : null;
        this.mark(app);
        this.span = spanOf(profile);
        const list = [];
        this.whole = 0; // what shares are shares of, as in the other views
        eachTime(profile, metric, (node, at, value) => {
            if (this.threads[node] === NONE)
                return;
            this.whole += value;
            if (!this.isGone(node))
                list.push([at, node, value]);
        });
        list.sort((a, b) => a[0] - b[0]);
        this.at = Float64Array.from(list, (one) => one[0]);
        this.node = Uint32Array.from(list, (one) => one[1]);
        this.value = Float64Array.from(list, (one) => one[2]);
        this.total = this.value.reduce((sum, value) => sum + value, 0);
        this.weigh();
    }

    // What the search finds, by node of the profile.
    mark(app) {
        const { profile, refined } = this, marks = app.state.search && app.model.matches(profile, app.tree, app.state.search).marks;
        this.marked = !marks ? null : refined ? movedWithMarks(refined.tree, refined.moves, marks) : nodesWithMarks(profile, marks);
    }

    isGone(node) {
        return Boolean(this.refined) && this.refined.moves[node] === NONE;
    }

    label(node) {
        return this.refined ? this.refined.tree.label[this.refined.moves[node]] : labelOfNode(this.profile, node);
    }

    // Threads by their cost; those behind the first are drawn together.
    weigh() {
        const weights = new Map();
        for (let i = 0; i < this.at.length; i++)
            weights.set(this.threads[this.node[i]], (weights.get(this.threads[this.node[i]]) || 0) + this.value[i]);
        const order = [...weights].sort((a, b) => b[1] - a[1]).map(([thread]) => thread);
        this.lines = order.slice(0, THREADS_MAX).map((thread) => ({ name: this.threadName(thread) }));
        this.lineOf = new Map(order.map((thread, i) => [thread, Math.min(i, THREADS_MAX)]));
        if (order.length > THREADS_MAX)
            this.lines.push({ name: plural(order.length - THREADS_MAX, "more thread") });
    }

    threadName(index) {
        const thread = this.profile.threads[index];
        return thread ? `${visible(thread[0])} (${thread[1]})` : "(not known)";
    }

    first(us) {
        let low = 0, high = this.at.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.at[middle] < us)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    // What there is in a part: {value, label, line}; of one line, or of all (null).
    within(from, to, line = null) {
        const labels = new Map(), lines = new Map();
        let value = 0;
        for (let i = this.first(from); i < this.at.length && this.at[i] < to; i++) {
            const at = this.lineOf.get(this.threads[this.node[i]]);
            if (line !== null && at !== line)
                continue;
            const label = this.label(this.node[i]);
            labels.set(label, (labels.get(label) || 0) + this.value[i]);
            lines.set(at, (lines.get(at) || 0) + this.value[i]);
            value += this.value[i];
        }
        const heaviest = (map) => [...map].sort((a, b) => b[1] - a[1])[0]?.[0];
        return { value, label: heaviest(labels), line: heaviest(lines) };
    }
}

// A canvas on which a part of the time can be chosen, by the mouse and by keys. Subclasses say where times are.
class TimePicture {
    constructor(app, samples, title) {
        this.app = app;
        this.samples = samples;
        this.canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": `${title}. Arrow keys move, with Shift ` +
            "they choose a part of the time, Enter takes it, Escape gives it up. The table below has the same as text." });
        this.box = element("div", { class: "time" }, this.canvas);
        this.cursor = null; // {at, line}
        this.anchor = null; // where choosing began
        this.canvas.addEventListener("mousedown", (event) => this.press(event));
        this.canvas.addEventListener("mousemove", (event) => this.move(event));
        this.canvas.addEventListener("mouseleave", () => !this.anchor && this.put(null));
        this.canvas.addEventListener("keydown", (event) => this.key(event));
        this.release = () => this.pressed && this.take();
        window.addEventListener("mouseup", this.release);
        this.resizes = new ResizeObserver(() => this.draw());
        this.resizes.observe(this.box);
    }

    close() {
        this.resizes.disconnect();
        window.removeEventListener("mouseup", this.release);
    }

    // What is chosen or being chosen: from, to; null: nothing.
    part() {
        const { first, last } = this.samples.span, range = rangeOf(this.app.state);
        if (this.anchor && this.cursor) {
            const a = this.anchor.at, b = this.cursor.at;
            return { from: Math.min(a, b), to: Math.max(a, b) + this.step() };
        }
        return range && { from: range.from ?? first, to: range.to ?? last };
    }

    // The page knows times in steps of a width: the report gives the same numbers for multiples of it.
    snap(us) {
        const { width } = this.samples.profile.times;
        return Math.round(us / width) * width;
    }

    take() {
        const part = this.part(), isAlone = this.anchor && this.cursor && this.anchor.at === this.cursor.at;
        this.pressed = false;
        this.anchor = null;
        if (!part || (isAlone && !this.takesOne))
            return this.draw();
        const from = Math.max(this.snap(part.from), 0), to = Math.max(this.snap(part.to), from + this.samples.profile.times.width);
        this.app.go({ from: secondsText(from), to: secondsText(to), zoom: [] });
    }

    press(event) {
        const at = this.where(event);
        if (!at || event.button)
            return;
        this.pressed = true;
        this.anchor = this.cursor = at;
        this.draw();
    }

    move(event) {
        const at = this.where(event);
        if (at || !this.pressed)
            this.put(at);
    }

    put(at) {
        this.cursor = at;
        this.draw();
        this.tell();
    }

    // In words, for the line below and for screen readers.
    tell() {
        const { app, samples, cursor } = this;
        if (!cursor)
            return app.showDetail(null);
        const part = this.anchor ? this.part() : { from: cursor.at, to: cursor.at + this.step() };
        const { value, label, line } = samples.within(part.from, part.to, this.anchor ? null : cursor.line);
        const scale = amountScale(app.metric.unit, Math.max(value, 1));
        app.detail.replaceChildren(element("span", { class: "numbers", text:
            `${secondsText(part.from, this.step())} to ${secondsText(part.to, this.step())} s` +
            (cursor.line !== null && !this.anchor ? ` · ${samples.lines[cursor.line].name}` : "") + ` · ${scale(value)}` +
            (value ? `, ${shareText(value, samples.whole)} of all · mostly ${app.base[app.model.sideOf(app.state)].fullName(label)}` +
                (cursor.line === null || this.anchor ? ` in ${samples.lines[line].name}` : "") : "") }));
    }

    key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey)
            return;
        const { span } = this.samples;
        if (event.key.startsWith("Arrow") || event.key === "Home" || event.key === "End") {
            if (event.shiftKey && !this.anchor)
                this.anchor = this.cursor || this.moved(event.key);
            else if (!event.shiftKey)
                this.anchor = null;
            this.put(this.moved(event.key));
        } else if (event.key === "Enter" && this.cursor) {
            this.anchor ||= this.cursor;
            this.takesOne = true;
            this.take();
        } else if (event.key === "Escape" && (this.anchor || this.app.state.from || this.app.state.to)) {
            this.anchor = null;
            this.app.go({ from: "", to: "", zoom: [] });
        } else {
            return;
        }
        if (this.cursor)
            this.cursor = { ...this.cursor, at: Math.min(Math.max(this.cursor.at, span.first), span.last) };
        event.preventDefault();
        event.stopPropagation();
    }

    // Draws on the canvas, or on what takes the same calls (`onto`).
    begin(width, height, onto) {
        const style = getComputedStyle(this.box), colour = (name) => style.getPropertyValue(name).trim();
        this.colours = { ink: colour("--ink"), dim: colour("--dim"), edge: colour("--edge"), bar: colour("--time"), match: colour("--match"),
            accent: colour("--accent"), panel: colour("--panel"), paper: colour("--paper") };
        if (onto) {
            onto.begin(width, height, this.colours);
            return onto;
        }
        const ratio = window.devicePixelRatio || 1, { canvas } = this;
        canvas.style.height = `${height}px`;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        const context = canvas.getContext("2d");
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        context.clearRect(0, 0, width, height);
        context.font = "12px system-ui, sans-serif";
        context.textBaseline = "middle";
        return context;
    }

    // For documents: what is seen, without where the mouse is.
    svg(title) {
        const { cursor, anchor } = this, svg = new SvgCanvas(title);
        this.cursor = this.anchor = null;
        this.draw(svg);
        Object.assign(this, { cursor, anchor });
        return svg.text();
    }
}

function niceStep(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return [1, 2, 5, 10].map((by) => by * power).find((step) => step >= least);
}

class Timeline extends TimePicture {
    perPixel() {
        return Math.max((this.samples.span.last - this.samples.span.first) / Math.max(this.columns || 100, 1), 1);
    }

    // How many pixels a bar is wide: so many that some samples fit beside each other, where a pixel is less than one.
    wide() {
        const { period, unit } = this.app.metric, sampleUs = unit === "ns" ? (period || 0) / 1000 : 0;
        return Math.min(Math.max(Math.ceil(SAMPLES_WIDE * sampleUs / this.perPixel()), 1), BAR_MAX);
    }

    step() {
        return this.wide() * this.perPixel();
    }

    where(event) {
        const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left - GUTTER, y = event.clientY - box.top;
        const line = Math.floor(y / ROW), { first } = this.samples.span;
        if (x < 0 || x >= this.columns)
            return null;
        return { at: first + Math.floor(x / this.wide()) * this.step(), line: line < this.samples.lines.length ? line : this.samples.lines.length - 1 };
    }

    moved(key) {
        const { span, lines } = this.samples, by = Math.max(Math.round(10 / this.wide()), 1) * this.step(), at = this.cursor || { at: span.first - by, line: 0 };
        const to = { ArrowLeft: at.at - by, ArrowRight: at.at + by, Home: span.first, End: span.last - this.step() }[key] ?? at.at;
        const line = at.line + (key === "ArrowDown") - (key === "ArrowUp");
        return { at: Math.min(Math.max(to, span.first), span.last - this.step()), line: Math.min(Math.max(line, 0), lines.length - 1) };
    }

    x(us) {
        return GUTTER + (us - this.samples.span.first) / this.perPixel();
    }

    draw(onto = null) {
        const { samples, app } = this, width = this.box.clientWidth;
        this.columns = Math.max(width - GUTTER - 4, 10);
        const height = samples.lines.length * ROW + AXIS, context = this.begin(width, height, onto), { colours } = this, part = this.part();
        const step = this.step(), wide = this.wide(), bars = Math.ceil(this.columns / wide) + 1;
        const sums = samples.lines.map(() => new Float64Array(bars)), found = samples.lines.map(() => new Float64Array(bars));
        for (let i = 0; i < samples.at.length; i++) {
            const line = samples.lineOf.get(samples.threads[samples.node[i]]), x = Math.floor((samples.at[i] - samples.span.first) / step);
            sums[line][x] += samples.value[i];
            if (samples.marked?.[samples.node[i]])
                found[line][x] += samples.value[i];
        }
        // The fullest bar is as high as its line; what that is stands below the names.
        const most = sums.reduce((max, line) => line.reduce((a, b) => Math.max(a, b), max), 1);
        context.fillStyle = colours.dim;
        context.fillText(app.metric.unit === "ns" ? `full height: ${shareText(most, step * 1000)} of a CPU` : `full height: ${amountText(app.metric.unit, most)}`, 4, height - AXIS / 2 + 2);
        samples.lines.forEach((line, i) => {
            const y = i * ROW;
            context.fillStyle = i % 2 ? colours.panel : colours.paper;
            context.fillRect(GUTTER, y, this.columns, ROW);
            context.fillStyle = this.cursor?.line === i ? colours.accent : colours.ink;
            context.fillText(shorten(line.name, 24), 4, y + ROW / 2);
            for (let x = 0; x < bars; x++) {
                if (!sums[i][x])
                    continue;
                const tall = Math.max(Math.min(sums[i][x] / most, 1) * (ROW - 3), 2), marked = Math.min(found[i][x] / most, 1) * (ROW - 3);
                context.fillStyle = colours.bar;
                context.fillRect(GUTTER + x * wide, y + ROW - 1 - tall, this.barWidth(x, wide), tall);
                context.fillStyle = colours.match;
                if (marked)
                    context.fillRect(GUTTER + x * wide, y + ROW - 1 - Math.max(marked, 2), this.barWidth(x, wide), Math.max(marked, 2));
            }
        });
        this.drawAxis(context, height);
        this.drawPart(context, part, height - AXIS);
    }

    // The last bar may be cut; wide ones have a gap between them.
    barWidth(x, wide) {
        return Math.max(Math.min(wide, this.columns - x * wide) - (wide > 3 ? 1 : 0), 1);
    }

    drawAxis(context, height) {
        const { first, last } = this.samples.span, step = niceStep((last - first) / Math.max(this.columns / 90, 1));
        context.fillStyle = this.colours.dim;
        for (let us = Math.ceil(first / step) * step; us <= last; us += step) {
            context.fillRect(this.x(us), height - AXIS, 1, 5);
            context.fillText(`${secondsText(us, step)} s`, this.x(us) + 4, height - AXIS / 2 + 2);
        }
    }

    drawPart(context, part, height) {
        if (part) {
            const from = Math.max(this.x(part.from), GUTTER), to = Math.min(this.x(part.to), GUTTER + this.columns);
            context.globalAlpha = 0.65;
            context.fillStyle = this.colours.paper;
            context.fillRect(GUTTER, 0, from - GUTTER, height);
            context.fillRect(to, 0, GUTTER + this.columns - to, height);
            context.globalAlpha = 1;
            context.strokeStyle = this.colours.accent;
            context.lineWidth = 2;
            context.strokeRect(from, 1, Math.max(to - from, 1), height - 2);
        }
        if (this.cursor) {
            context.fillStyle = this.colours.accent;
            context.fillRect(this.x(this.cursor.at), 0, 1, height);
        }
    }
}

// Columns one beside the other, and the parts of each from the bottom up.
class HeatMap extends TimePicture {
    // The column: a second, or what makes of the recording neither a line nor a carpet.
    column() {
        const { last } = this.samples.span;
        return [1e4, 1e5, SECOND, 1e7, 6e7, 6e8, 3.6e9].find((one) => last / one <= HEAT_COLUMNS) || 8.64e10;
    }

    step() {
        return this.column() / HEAT_ROWS;
    }

    count() {
        return Math.ceil(this.samples.span.last / this.column());
    }

    where(event) {
        const box = this.canvas.getBoundingClientRect(), column = Math.floor((event.clientX - box.left - 46) / this.cell);
        const row = HEAT_ROWS - 1 - Math.floor((event.clientY - box.top) / this.tall);
        if (column < 0 || column >= this.count() || row < 0 || row >= HEAT_ROWS)
            return null;
        return { at: column * this.column() + row * this.step(), line: null };
    }

    moved(key) {
        const { last } = this.samples.span, step = this.step(), at = this.cursor ? this.cursor.at : 0;
        const by = { ArrowLeft: -this.column(), ArrowRight: this.column(), ArrowUp: step, ArrowDown: -step }[key] || 0;
        const to = key === "Home" ? 0 : key === "End" ? last - step : this.cursor ? at + by : 0;
        return { at: Math.min(Math.max(Math.round(to / step) * step, 0), Math.floor(last / step) * step), line: null };
    }

    draw(onto = null) {
        const { samples } = this, width = this.box.clientWidth, columns = this.count(), step = this.step();
        this.cell = Math.max(Math.min(Math.floor((width - 60) / columns), 24), 2);
        this.tall = 6;
        const height = HEAT_ROWS * this.tall + AXIS, context = this.begin(width, height, onto), cells = new Float64Array(columns * HEAT_ROWS);
        for (let i = 0; i < samples.at.length; i++)
            if (!samples.marked || samples.marked[samples.node[i]])
                cells[Math.min(Math.floor(samples.at[i] / step), cells.length - 1)] += samples.value[i];
        const most = cells.reduce((a, b) => Math.max(a, b), 1), dark = this.app.isDark();
        cells.forEach((value, i) => {
            const column = Math.floor(i / HEAT_ROWS), row = i % HEAT_ROWS, share = Math.sqrt(value / most);
            context.fillStyle = !value ? this.colours.panel : dark ? `hsl(32 ${70 * share + 20}% ${16 + 44 * share}%)` : `hsl(26 ${60 + 30 * share}% ${93 - 50 * share}%)`;
            context.fillRect(46 + column * this.cell, (HEAT_ROWS - 1 - row) * this.tall, Math.max(this.cell - 1, 1), this.tall - 1);
        });
        this.drawAxes(context, columns, height);
        this.drawPart(context, this.part(), step);
    }

    drawAxes(context, columns, height) {
        const every = Math.max(Math.ceil(70 / this.cell), 1);
        context.fillStyle = this.colours.dim;
        for (let column = 0; column < columns; column += every)
            context.fillText(`${secondsText(column * this.column(), this.column())} s`, 46 + column * this.cell, height - AXIS / 2 + 2);
        for (const share of [0, 0.5, 1])
            context.fillText(`${Number((share * this.column() / (this.column() < SECOND ? 1000 : SECOND)).toPrecision(3))}${this.column() < SECOND ? " ms" : " s"}`,
                0, Math.min(Math.max((1 - share) * HEAT_ROWS * this.tall, 6), HEAT_ROWS * this.tall - 6));
    }

    drawPart(context, part, step) {
        const outline = (at, colour) => {
            const column = Math.floor(at / this.column() + 1e-9), row = Math.floor((at - column * this.column()) / step + 1e-9);
            context.strokeStyle = colour;
            context.strokeRect(45.5 + column * this.cell, (HEAT_ROWS - 1 - row) * this.tall - 0.5, this.cell, this.tall);
        };
        context.lineWidth = 1.5;
        if (part && (part.to - part.from) / step < 20000)
            for (let at = Math.ceil(part.from / step) * step; at < part.to; at += step)
                outline(at, this.colours.accent);
        if (this.cursor)
            outline(this.cursor.at, this.colours.ink);
    }
}

function mostlyCell(samples, { value, label, line }) {
    if (!value)
        return element("span", { class: "label" });
    const { profile } = samples, module = profile.module(label);
    const cell = element("span", { class: "label" }, element("span", { class: "function", text: shortName(profile.name(label)) }),
        element("span", { class: "module", text: `${module ? ` ${module}` : ""} in ${samples.lines[line].name}` }));
    cell.title = profile.fullName(label);
    return cell;
}

// The same as text: equal parts of the time, each of which can be chosen.
function partsTable(app, samples) {
    const { first, last } = samples.span, scale = amountScale(app.metric.unit, samples.total), { width } = samples.profile.times;
    const edge = (i) => Math.round((first + (last - first) * i / PARTS) / width) * width, step = Math.max((last - first) / PARTS / 100, 1), parts = [];
    for (let i = 0; i < PARTS; i++)
        if (edge(i) < edge(i + 1))
            parts.push({ from: edge(i), to: edge(i + 1), ...samples.within(edge(i), edge(i + 1)) });
    const table = new Table([
        { title: "From", kind: "number", text: (part) => `${secondsText(part.from, step)} s` },
        { title: "To", kind: "number", text: (part) => `${secondsText(part.to, step)} s` },
        { title: "Share", kind: "share", share: (part) => samples.whole ? 100 * part.value / samples.whole : 0, text: (part) => shareText(part.value, samples.whole) },
        { title: app.metric.name, kind: "number", text: (part) => scale(part.value) },
        { title: "Mostly", kind: "name", cell: (part) => mostlyCell(samples, part) },
    ], {
        choose: () => {},
        open: (part) => app.go({ from: secondsText(part.from), to: secondsText(part.to), zoom: [] }),
    }, "The same as text: Enter takes a part");
    app.main.append(table.box);
    table.show(parts);
    return table;
}

function timeView(app, Picture, title, about) {
    const profile = app.base[app.baseModel.sideOf(app.state)], metric = profile.metrics.findIndex(({ name }) => name === app.metric.name);
    const samples = new Samples(app, profile, metric);
    if (!samples.at.length) {
        app.main.append(element("p", { class: "nothing", text: samples.whole ?
            "Nothing was measured in this selection." : `The samples of ${visible(app.metric.name)} in this selection have no times.` }));
        return null;
    }
    const untimed = profile.values[metric].reduce((sum, value, node) => sum + (samples.threads[node] === NONE || samples.isGone(node) ? 0 : value), 0) - samples.total;
    const picture = new Picture(app, samples, title);
    app.main.append(element("div", { class: "tools" }, element("span", { class: "numbers", text:
        `${countText(samples.at.length)} samples, ${secondsText(samples.span.first, 1000)} to ${secondsText(samples.span.last, 1000)} s. ${about}` +
        (untimed > 0 ? ` ${shareText(untimed, untimed + samples.total)} of the cost has no time.` : "") })), picture.box);
    picture.draw();
    app.picture = picture;
    const table = partsTable(app, samples);
    return { close: () => [picture, table].forEach((part) => part.close()) };
}

export function timelineView(app) {
    return timeView(app, Timeline, "Timeline of each thread", "Drag to choose a part for all views.");
}

export function heatMapView(app) {
    return timeView(app, HeatMap, "Heat map of time", "A column from bottom to top, then the next. Drag from cell to cell to choose a part for all views.");
}
