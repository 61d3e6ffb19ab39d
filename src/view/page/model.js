// What is looked at: the profile, the tree of the selection, what the search finds. Made anew when the address
// changes, and only as far as it did.
import { Comparison } from "./compare.js";
import { NONE } from "./data.js";
import { LineLabels, PlaceLabels, instructionRows, lineRows, structureOf } from "./lines.js";
import { matchNames, refine } from "./refine.js";
import { inRange } from "./times.js";
import { flatRows, growTree, outermost } from "./tree.js";
import { visible } from "./format.js";

// All that a page has of a range of time, as if it were all there is.
export function modelInRange(model, range) {
    return model.once(`range ${JSON.stringify(range)}`, () => new Model(model.profiles.map((profile) => inRange(profile, range))));
}

export class Model {
    // `words`: the thread, process, phase, path and range of time that the profiles were asked for with; null: none.
    constructor(profiles, words = null) {
        const { thread = "", process = "", phase = "" } = words || {};
        this.words = words;
        this.profiles = profiles;
        this.selection = JSON.stringify([thread, process, phase]);
        this.cache = new Map();
        this.lineLabels = new Map();
    }

    // The last few answers are kept: back and forward are instant.
    once(key, make) {
        if (this.cache.has(key))
            return this.cache.get(key);
        if (this.cache.size >= 12)
            this.cache.delete(this.cache.keys().next().value);
        const made = make();
        this.cache.set(key, made);
        return made;
    }

    sideOf(state) {
        return this.profiles.length > 1 && state.side !== "older" ? 1 : 0;
    }

    metricIndex(profile, name) {
        return Math.max(profile.metrics.findIndex((metric) => metric.name === name), 0);
    }

    // How many callers of each function the recording kept (--k); 0: all.
    callersKept(state) {
        const profile = this.profiles[this.sideOf(state)];
        return profile.fact("callers_kept", this.metricIndex(profile, state.metric)) || 0;
    }

    selectionKey(state, side) {
        return JSON.stringify([side, state.metric, state.thread, state.process, state.phase, state.inlined, state.refinements]);
    }

    selectionOf(state, profile) {
        const { thread, process, phase, inlined } = state;
        return { metric: this.metricIndex(profile, state.metric), thread, process, phase, inlined };
    }

    tree(state, side = this.sideOf(state)) {
        const profile = this.profiles[side];
        return this.once(`tree ${this.selectionKey(state, side)}`, () => state.refinements.reduce(
            (tree, refinement) => refine(profile, tree, refinement),
            growTree(profile, this.selectionOf(state, profile))));
    }

    // The tree, and where in it the value of each node of the profile went: NONE where it is refined away.
    placed(state) {
        const side = this.sideOf(state), profile = this.profiles[side];
        return this.once(`placed ${this.selectionKey(state, side)}`, () => {
            const moves = new Uint32Array(profile.nodeParent.length).fill(NONE);
            let tree = growTree(profile, this.selectionOf(state, profile), profile, moves);
            for (const refinement of state.refinements) {
                const next = new Uint32Array(tree.count).fill(NONE);
                tree = refine(profile, tree, refinement, next);
                for (let i = 0; i < moves.length; i++)
                    if (moves[i] !== NONE)
                        moves[i] = next[moves[i]];
            }
            return { tree, moves };
        });
    }

    // Functions without their contexts. Where the page does not have all contexts, the whole profile's are known
    // as long as nothing is refined.
    functions(state) {
        const profile = this.profiles[this.sideOf(state)], metric = this.metricIndex(profile, state.metric);
        const rows = flatRows(this.tree(state), profile.labelCount);
        if (!profile.flatSelf.length || !state.inlined || state.refinements.length || !this.isWhole(state))
            return rows;
        const contexts = new Map(rows.map((row) => [row.label, row.contexts])), exact = [];
        profile.flatTotal[metric].forEach((total, label) => {
            if (total)
                exact.push({ label, self: profile.flatSelf[metric][label], total, contexts: contexts.get(label) || 0 });
        });
        return exact;
    }

    // Whether what was asked for when this model was made is what is looked at now.
    isWhole({ thread, process, phase }) {
        return this.selection === JSON.stringify([thread, process, phase]);
    }

    // By node of the tree, how often: {kind, counts}; null where there is nothing to divide by.
    counts(state) {
        const side = this.sideOf(state), profile = this.profiles[side];
        const metric = profile.metrics[this.metricIndex(profile, state.metric)];
        if (!metric.countMetric)
            return null;
        const tree = this.tree(state), other = this.tree({ ...state, metric: metric.countMetric });
        let alike = tree.count === other.count;
        for (let i = 1; alike && i < tree.count; i++)
            alike = tree.parent[i] === other.parent[i] && tree.label[i] === other.label[i];
        return alike ? { kind: metric, counts: metric.countIsInclusive ? other.total : other.self } : null;
    }

    // The tree with every line apart, or every instruction; its labels say which.
    lines(state, Labels = LineLabels) {
        const side = this.sideOf(state), profile = this.profiles[side], key = `${Labels === LineLabels ? "lines" : "places"} ${side}`;
        if (!this.lineLabels.has(key))
            this.lineLabels.set(key, new Labels(profile));
        const labels = this.lineLabels.get(key);
        const tree = this.once(`${key} ${this.selectionKey(state, side)}`, () => state.refinements
            .filter(({ kind }) => kind !== "r")
            .reduce((grown, refinement) => refine(labels, grown, refinement),
                growTree(profile, this.selectionOf(state, profile), labels)));
        return { labels, tree };
    }

    lineRows(state, label) {
        const { labels, tree } = this.lines(state);
        return lineRows(labels, tree, label);
    }

    // Instructions belong to the function that they are in, whatever was inlined there.
    instructionRows(state, label) {
        const { labels, tree } = this.lines({ ...state, inlined: false }, PlaceLabels);
        return instructionRows(labels, tree, label);
    }

    structure(state) {
        const { labels, tree } = this.lines(state), { files } = this.profiles[this.sideOf(state)];
        return structureOf(labels, tree, (file) => visible(files.get(file) || ""));
    }

    comparison(state) {
        const key = `compare ${this.selectionKey(state, "both")}`;
        return this.once(key, () => new Comparison(this.profiles, [this.tree(state, 0), this.tree(state, 1)],
            this.profiles.map((profile) => profile.metrics[this.metricIndex(profile, state.metric)])));
    }

    // What a search finds: marks by label, and the cost of contexts that have a match.
    matches(labels, tree, text) {
        const marks = matchNames(labels, text, "i");
        let value = 0;
        outermost(tree, marks, (node) => {
            value += tree.total[node];
        });
        return { marks, value, functions: marks.reduce((sum, mark) => sum + mark, 0) };
    }
}
