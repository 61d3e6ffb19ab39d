// A profile as src/view/page_data.c writes it: a header in JSON, then typed arrays.
import { fileOf, visible } from "./format.js";

export const NONE = 0xffffffff;

// Kinds of labels, as in src/query/label.h; the last is the page's own: contexts that were cut.
export const Kind = { FUNCTION: 0, PLACE: 1, GAP: 2, NOTHING: 3, FOLDED: 4, GROUP: 5, TEXT: 6, CUT: 7 };

function readArrays(buffer, at, list) {
    const arrays = { values: [], flatSelf: [], flatTotal: [] }; // of each metric
    for (const [name, type, count] of list) {
        const array = type === "f64" ? new Float64Array(buffer, at, count) : new Uint32Array(buffer, at, count);
        if (Array.isArray(arrays[name]))
            arrays[name].push(array);
        else
            arrays[name] = array;
        at += Math.ceil(array.byteLength / 8) * 8;
    }
    return arrays;
}

// The header of an answer, and its arrays.
function readAnswer(buffer) {
    const length = Number(new DataView(buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
    return { header, arrays: readArrays(buffer, 8 + Math.ceil(length / 8) * 8, header.arrays) };
}

export class Profile {
    constructor(buffer) {
        const { header, arrays } = readAnswer(buffer);
        Object.assign(this, header, arrays);
        this.setLabels(header.labels);
        this.wrappers = new Set(header.wrappers);
        this.files = new Map(header.files);
        this.moduleFiles = header.modules.map(([path]) => fileOf(path));
        this.moduleNames = this.moduleFiles.map(visible);
        this.rootCount = this.rootThread.length;
    }

    // Behind those of the profile come the label of what was cut and those that views need.
    setLabels(labels) {
        const count = labels.length;
        this.cutLabel = count;
        this.nothingLabel = count + 1;
        this.foldedLabel = count + 2;
        const all = labels.concat([[Kind.CUT, "(smaller contexts)", -1], [Kind.NOTHING, "(context not known)", -1],
            [Kind.FOLDED, "(other modules)", -1]]);
        this.labelCount = all.length;
        this.labelKinds = Uint8Array.from(all, (label) => label[0]);
        this.rawNames = all.map((label) => label[1]);
        this.names = all.map((label) => visible(label[1]));
        this.labelModules = Int32Array.from(all, (label) => label[2]);
    }

    isCode(label) {
        return this.labelKinds[label] === Kind.FUNCTION || this.labelKinds[label] === Kind.PLACE;
    }

    name(label) {
        return this.names[label] || "(no name)";
    }

    // The module's file, "" for what is no code.
    module(label) {
        const module = this.labelModules[label];
        return this.isCode(label) && module >= 0 ? this.moduleNames[module] : "";
    }

    // "name [module]", except where the name has the module in it.
    fullName(label) {
        const module = this.labelKinds[label] === Kind.FUNCTION ? this.module(label) : "";
        return module ? `${this.name(label)} [${module}]` : this.name(label);
    }

    fileName(file) {
        return visible(this.files.get(file) || "");
    }

    // The lines of a file that are in the page, by number.
    sourceLines(file) {
        const source = (this.sources || []).find(([index]) => index === file);
        return new Map(source ? source[1].map(([line, text]) => [line, visible(text)]) : []);
    }

    // What is said of a metric, or else of the whole profile; undefined if nothing is.
    fact(key, metric) {
        const of = (scope) => this.facts.find((fact) => fact[0] === scope && fact[1] === key);
        const found = of(metric) || of(-1);
        return found && found[2];
    }
}

async function unpack(text) {
    const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++)
        bytes[i] = binary.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
}

// Where the profiles of this page come from: within it, or from the server that it came from.
export class Source {
    constructor() {
        this.parts = [...document.querySelectorAll("script.data")];
        this.isServed = this.parts.length === 0;
    }

    // The older one first.
    async profiles() {
        if (!this.isServed)
            return Promise.all(this.parts.map(async (part) => new Profile(await unpack(part.textContent))));
        const count = await (await fetch("profiles")).json(), all = [];
        for (let i = 0; i < count; i++)
            all.push(await this.part(i, {}));
        return all;
    }

    // A closer look: at threads, a process, a phase, a range of time, or at what is called through a path of labels.
    async part(index, words) {
        return new Profile(await this.answer("data", index, words));
    }

    // Functions without their contexts, of the whole profile: {flatSelf, flatTotal}, by metric and label.
    async flat(index, words) {
        const { flatSelf, flatTotal } = readAnswer(await this.answer("flat", index, words)).arrays;
        return { flatSelf, flatTotal };
    }

    async answer(what, index, { thread, process, phase, zoom, from, to }) {
        const words = new URLSearchParams({ profile: index });
        for (const [key, value] of Object.entries({ thread, process, phase, zoom, from, to }))
            if (value)
                words.append(key, value);
        const answer = await fetch(`${what}?${words}`);
        if (!answer.ok)
            throw new Error(await answer.text());
        return answer.arrayBuffer();
    }
}
