// Lines of source: the same tree with every line of a function apart, and what is summed up from it.

// Labels that are lines: each is a function's label, a file and a line. Views ask it what they ask a profile.
export class LineLabels {
    constructor(profile) {
        const known = new Map(), entries = profile.entryLabel;
        this.profile = profile;
        this.functions = [];
        this.places = []; // [file, line]
        this.entryLabel = Uint32Array.from(entries, (label, entry) => {
            const file = profile.entryFile[entry], line = profile.entryLine[entry], key = `${label} ${file} ${line}`;
            if (!known.has(key))
                known.set(key, this.add(label, file, line));
            return known.get(key);
        });
        this.nothingLabel = this.add(profile.nothingLabel, 0, 0);
        this.foldedLabel = this.add(profile.foldedLabel, 0, 0);
        this.labelCount = this.functions.length;
        this.rawNames = this.functions.map((label) => profile.rawNames[label]);
    }

    add(label, file, line) {
        this.functions.push(label);
        this.places.push([file, line]);
        return this.functions.length - 1;
    }

    isCode(label) {
        return this.profile.isCode(this.functions[label]);
    }

    module(label) {
        return this.profile.module(this.functions[label]);
    }
}

// Labels that are places in code: each is a function's label, with all that was inlined there, and an offset in a
// module.
export class PlaceLabels extends LineLabels {
    constructor(profile) {
        super(profile);
        this.functions = [];
        this.places = []; // [module, offset]
        const known = new Map(), { frameFirst, frameModule, framePlace } = profile;
        for (let frame = 0; frame < frameModule.length; frame++) {
            const entry = frameFirst[frame], label = profile.entryLabel[entry];
            const key = `${label} ${frameModule[frame]} ${framePlace[frame]}`;
            if (!known.has(key))
                known.set(key, this.add(label, frameModule[frame], framePlace[frame]));
            this.entryLabel[entry] = known.get(key);
        }
        this.nothingLabel = this.add(profile.nothingLabel, 0, 0);
        this.foldedLabel = this.add(profile.foldedLabel, 0, 0);
        this.labelCount = this.functions.length;
        this.rawNames = this.functions.map((label) => profile.rawNames[label]);
    }
}

// The instructions of a function: {offset, text, self, total}, of the first part of its code that is in the page;
// null if none is.
export function instructionRows(places, tree, wanted) {
    const code = (places.profile.code || []).find(([label]) => label === wanted);
    if (!code)
        return null;
    const [, module, first, size, instructions] = code;
    const rows = instructions.map(([offset, text]) => ({ offset, text, self: 0, total: 0, end: 0 }));
    const ofLabel = places.functions.map((label, i) => {
        const [inModule, offset] = places.places[i];
        if (label !== wanted || inModule !== module || offset < first || offset >= first + size)
            return null;
        return rows.findLast((row) => row.offset <= offset) || rows[0];
    });
    for (let i = 1; i < tree.count; i++) {
        const row = ofLabel[tree.label[i]];
        if (!row)
            continue;
        row.self += tree.self[i];
        if (i >= row.end) {
            row.total += tree.total[i];
            row.end = i + tree.size[i];
        }
    }
    return rows;
}

// The lines of a function: {file, line, self, total}. A line that is on a path twice is counted once.
export function lineRows(lines, tree, wanted) {
    const rows = new Map(), ofLabel = new Array(lines.labelCount).fill(null);
    lines.functions.forEach((label, i) => {
        const [file, line] = lines.places[i], key = `${file} ${line}`;
        if (label !== wanted)
            return;
        if (!rows.has(key))
            rows.set(key, { file, line, self: 0, total: 0, end: 0 });
        ofLabel[i] = rows.get(key);
    });
    for (let i = 1; i < tree.count; i++) {
        const row = ofLabel[tree.label[i]];
        if (!row)
            continue;
        row.self += tree.self[i];
        if (i >= row.end) {
            row.total += tree.total[i];
            row.end = i + tree.size[i];
        }
    }
    return [...rows.values()].filter((row) => row.total).sort((a, b) => a.file - b.file || a.line - b.line);
}

class Place {
    constructor(kind, name, parent, label = null) {
        Object.assign(this, { kind, name, parent, label, self: 0, below: new Map() });
    }

    child(kind, key, name, label) {
        if (!this.below.has(key))
            this.below.set(key, new Place(kind, name, this, label));
        return this.below.get(key);
    }

    get total() {
        return this.self;
    }

    // This, and all that is below it.
    places() {
        return [this, ...[...this.below.values()].flatMap((place) => place.places())];
    }

    children() {
        return [...this.below.values()].filter((place) => place.self)
            .sort((a, b) => this.kind === "function" ? a.line - b.line : b.self - a.self || (a.name < b.name ? -1 : 1));
    }
}

// Where cost is, by how the program is built: module, file, function, line. Only what was charged to a place
// itself counts, so that the parts are the whole.
export function structureOf(lines, tree, nameOfFile) {
    const root = new Place("all", "", null), { profile } = lines;
    for (let i = 1; i < tree.count; i++) {
        if (!tree.self[i])
            continue;
        const label = lines.functions[tree.label[i]], [file, line] = lines.places[tree.label[i]];
        const steps = [["module", profile.module(label) || profile.name(label), null]];
        if (profile.isCode(label)) {
            steps.push(["file", file ? nameOfFile(file) : "(file not known)", null], ["function", profile.name(label), label]);
            if (line)
                steps.push(["line", `line ${line}`, label]);
        }
        let place = root;
        place.self += tree.self[i];
        for (const [kind, name, of] of steps) {
            place = place.child(kind, kind === "function" ? of : name, name, of);
            place.self += tree.self[i];
            place.line = line;
        }
    }
    return root;
}
