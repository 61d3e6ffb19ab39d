// The flame graph in order of time: samples of a thread that follow each other and have the same caller share its
// frame. A frame is as wide as its cost, as in the merged one: time in which nothing was measured is left out.
import { NONE } from "./data.js";
import { plural, visible } from "./format.js";
import { eachTime, threadsOfNodes } from "./times.js";

const CHART_THREADS_MAX = 100;

// Samples of a metric at their nodes of the tree, thread by thread, the heaviest first, each in order of time.
class TimedSamples {
    constructor(profile, metric, state, range, { tree, moves }) {
        const threads = threadsOfNodes(profile, state), weights = new Map(), nodes = [], times = [], values = [];
        const from = range?.from ?? 0, to = range?.to ?? Infinity;
        let isInOrder = true;
        eachTime(profile, metric, (node, at, value) => {
            if (moves[node] === NONE || at < from || at >= to)
                return;
            isInOrder &&= !times.length || at >= times[times.length - 1];
            nodes.push(node);
            times.push(at);
            values.push(value);
            weights.set(threads[node], (weights.get(threads[node]) || 0) + value);
        });
        const rows = Uint32Array.from(nodes.keys());
        if (!isInOrder)
            rows.sort((a, b) => times[a] - times[b] || a - b);
        this.order = [...weights.keys()].sort((a, b) => weights.get(b) - weights.get(a));
        const rank = new Map(this.order.map((thread, i) => [thread, i])), ends = new Uint32Array(this.order.length + 1);
        const rankOf = (row) => rank.get(threads[nodes[row]]);
        for (const row of rows)
            ends[rankOf(row) + 1]++;
        for (let i = 1; i < ends.length; i++)
            ends[i] += ends[i - 1];
        this.node = new Uint32Array(rows.length);
        this.value = new Float64Array(rows.length);
        this.rank = new Uint32Array(rows.length);
        for (const row of rows) {
            const thread = rankOf(row), place = ends[thread]++;
            this.node[place] = moves[nodes[row]];
            this.value[place] = values[row];
            this.rank[place] = thread;
        }
        this.tree = tree;
    }

    // The child of a node on the way to one below it. Of children and callers, those that are fewer are gone through.
    childTowards(node, below) {
        const { parent, size } = this.tree;
        let up = below, child = node + 1;
        while (parent[up] !== node && below >= child + size[child]) {
            up = parent[up];
            child += size[child];
        }
        return parent[up] === node ? up : child;
    }
}

// A call, or what stands for one: the samples from `first` on that have this node above them. What pictures ask
// of a row, see rows.js.
class TimedRow {
    constructor(samples, parent, node, first, offset) {
        // `offset`: what its parent has before it, of its own, too.
        Object.assign(this, { samples, parent, node, first, offset, end: first, self: 0, total: 0, text: null, threads: null });
        this.label = node ? samples.tree.label[node] : null;
        this.nodes = node ? [node] : [];
        this.up = false;
        this.made = null;
    }

    add(i) {
        const { node, value } = this.samples;
        this.end = i + 1;
        this.total += value[i];
        if (node[i] === this.node)
            this.self += value[i];
    }

    // In order of time.
    children() {
        return this.made ||= this.threads || this.make(0);
    }

    childrenAbove(least) {
        const made = this.made || this.threads;
        return made ? made.filter((row) => row.total >= least) : this.make(least);
    }

    // Most of millions of samples are too little to be seen: a row is made where its run is long enough.
    make(least) {
        const { samples, node } = this, { value } = samples, { size } = samples.tree, rows = [];
        let child = 0, first = 0, start = 0, total = 0, offset = 0;
        const end = (i) => {
            if (child && total >= least) {
                const row = new TimedRow(samples, this, child, first, start);
                for (let k = first; k < i; k++)
                    row.add(k);
                rows.push(row);
            }
            child = 0;
        };
        for (let i = this.first; i < this.end; offset += value[i++]) {
            const at = samples.node[i];
            if (child && (at < child || at >= child + size[child]))
                end(i);
            if (!child && at !== node) {
                child = samples.childTowards(node, at);
                first = i;
                start = offset;
                total = 0;
            }
            total += value[i];
        }
        end(this.end);
        return rows;
    }

    stack() {
        return this.samples.tree.path(this.node);
    }

    // By samples: a function may be called any number of times.
    path() {
        return this.parent ? this.parent.path().concat(this.first - this.parent.first) : [];
    }

    find(path) {
        let row = this;
        for (const step of path) {
            const next = row.children().find((child) => child.first === row.first + step);
            if (!next)
                break;
            row = next;
        }
        return row;
    }
}

// The root of the picture; its rows are threads where there are several. null: nothing of the metric has a time.
export function inOrderOfTime(profile, metric, state, range, placed) {
    const samples = new TimedSamples(profile, metric, state, range, placed), root = new TimedRow(samples, null, 0, 0, 0), rows = [];
    for (let i = 0; i < samples.node.length; i++) {
        const shown = Math.min(samples.rank[i], CHART_THREADS_MAX), last = rows[rows.length - 1];
        if (!last || last.shown !== shown)
            rows.push(Object.assign(new TimedRow(samples, root, 0, i, root.total), { shown }));
        rows[rows.length - 1].add(i);
        root.add(i);
    }
    for (const row of rows) {
        const thread = profile.threads[samples.order[row.shown]];
        row.text = row.shown === CHART_THREADS_MAX ? plural(samples.order.length - CHART_THREADS_MAX, "more thread")
            : thread ? `${visible(thread[0])} (${thread[1]})` : "(thread not known)";
    }
    if (rows.length > 1)
        root.threads = rows;
    return rows.length ? root : null;
}
