// What is seen as SVG, for documents, and as PNG.
import { FLAME_ROW_HEIGHT, layOut } from "./flame.js";
import { shareText } from "./format.js";
import { shortName } from "./names.js";

const LETTER = 7.23, HEAD = 30, MARGIN = 10, SVG = "http://www.w3.org/2000/svg";

// A node of the picture; all text in it is text.
function svgElement(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes))
        made.setAttribute(key, value);
    if (text !== undefined)
        made.textContent = text;
    return made;
}

// The flame graph as a document of its own: {root, zoomed, labels, colourOf, rootText, title, unitText(value)}.
export function flameSvg(what, width = 1200, dark = false) {
    const { rects, depth } = layOut(what.root, what.zoomed, width - 2 * MARGIN);
    const height = HEAD + depth * FLAME_ROW_HEIGHT + MARGIN, ink = dark ? "#eee" : "#222";
    const svg = svgElement("svg", {
        xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "ui-monospace, Menlo, Consolas, monospace",
        "font-size": 12,
    });
    svg.append(svgElement("rect", { width, height, fill: dark ? "#17191d" : "#fff" }),
        svgElement("text", { x: MARGIN, y: 20, fill: ink, "font-family": "system-ui, sans-serif", "font-weight": 600 }, what.title));
    for (const rect of rects) {
        const { row } = rect, name = row.label === null ? row.text || what.rootText : what.labels.fullName(row.label);
        const x = MARGIN + rect.x, y = HEAD + rect.depth * FLAME_ROW_HEIGHT, group = svgElement("g", {});
        group.append(svgElement("title", {}, `${name}\n${what.unitText(row.total)}, ${shareText(row.total, what.whole)}`));
        group.append(svgElement("rect", {
            x: x.toFixed(2), y, width: Math.max(rect.width - 1, 0.5).toFixed(2), height: FLAME_ROW_HEIGHT - 1, rx: 1.5,
            fill: row.label === null ? (dark ? "#3a3f48" : "#dfe3e8") : what.colourOf(row),
        }));
        const room = Math.floor((rect.width - 10) / LETTER);
        if (room >= 3)
            group.append(svgElement("text", { x: (x + 5).toFixed(2), y: y + 14.5, fill: dark ? "#f2f2f2" : "#1b1d21" },
                row.label === null ? (row.text || what.rootText).slice(0, room) : shortName(what.labels.name(row.label), room)));
        svg.append(group);
    }
    return new XMLSerializer().serializeToString(svg);
}

// Takes the calls of a canvas that the views of time make, and is a document in the end.
export class SvgCanvas {
    constructor(title) {
        this.title = title;
        this.globalAlpha = 1;
        this.path = null; // rectangles of one colour
    }

    begin(width, height, colours) {
        const wide = width + 2 * MARGIN, tall = height + HEAD + MARGIN;
        this.svg = svgElement("svg", { xmlns: SVG, width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}`, "font-family": "system-ui, sans-serif", "font-size": 12 });
        this.group = svgElement("g", { transform: `translate(${MARGIN} ${HEAD})` });
        this.svg.append(svgElement("rect", { width: wide, height: tall, fill: colours.paper }),
            svgElement("text", { x: MARGIN, y: 20, fill: colours.ink, "font-weight": 600 }, this.title), this.group);
    }

    fillRect(x, y, width, height) {
        if (!this.path || this.path.fill !== this.fillStyle || this.path.opacity !== this.globalAlpha) {
            this.flush();
            this.path = { fill: this.fillStyle, opacity: this.globalAlpha, parts: [] };
        }
        const short = (number) => Number(number.toFixed(2));
        this.path.parts.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}z`);
    }

    flush() {
        if (this.path)
            this.group.append(svgElement("path", { fill: this.path.fill, "fill-opacity": this.path.opacity, d: this.path.parts.join("") }));
        this.path = null;
    }

    fillText(text, x, y) {
        this.flush();
        this.group.append(svgElement("text", { x, y: y + 4, fill: this.fillStyle }, text));
    }

    strokeRect(x, y, width, height) {
        this.flush();
        this.group.append(svgElement("rect", { x, y, width, height, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth }));
    }

    text() {
        this.flush();
        return new XMLSerializer().serializeToString(this.svg);
    }
}

export function saveAs(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export async function svgToPng(text, scale = 2) {
    const image = new Image(), address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width * scale;
    canvas.height = image.height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
