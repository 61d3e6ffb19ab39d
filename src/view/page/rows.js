// Rows: a function as seen from where a view begins, downwards to what it calls or upwards to who calls it. A row
// stands for a group of contexts that look the same from there, and its children are made when they are asked
// for: the full tree of callers can have the square of the profile's contexts.

export class Row {
    constructor(tree, up, label, parent) {
        this.tree = tree;
        this.up = up;
        this.label = label;
        this.parent = parent;
        this.depth = parent ? parent.depth + 1 : 0;
        this.nodes = [];
        this.weights = up ? [] : null;
        this.self = 0; // downwards: its own; upwards: what has no caller
        this.total = 0;
        this.made = null;
    }

    add(node, weight) {
        this.nodes.push(node);
        if (this.up) {
            this.weights.push(weight);
            if (this.tree.parent[node] === 0)
                this.self += weight;
        } else {
            this.self += this.tree.self[node];
        }
        this.total += weight;
    }

    // All children, heaviest first; equal ones in the order of labels.
    children() {
        if (!this.made)
            this.made = this.make(0);
        return this.made;
    }

    // Those of at least `least`, without keeping them: for pictures, where most are too small to be seen.
    childrenAbove(least) {
        return this.made ? this.made.filter((row) => row.total >= least) : this.make(least);
    }

    make(least) {
        const { tree, nodes } = this, groups = new Map();
        const put = (node, weight) => {
            const label = tree.label[node];
            let row = groups.get(label);
            if (!row)
                groups.set(label, row = new Row(tree, this.up, label, this));
            row.add(node, weight);
        };
        for (let i = 0; i < nodes.length; i++) {
            const node = nodes[i];
            if (this.up) {
                if (tree.parent[node] !== 0)
                    put(tree.parent[node], this.weights[i]);
                continue;
            }
            const end = node + tree.size[node], alone = nodes.length === 1;
            for (let child = node + 1; child < end; child += tree.size[child])
                if (tree.total[child] && !(alone && tree.total[child] < least))
                    put(child, tree.total[child]);
        }
        return sortRows([...groups.values()].filter((row) => row.total >= least));
    }

    hasChildren() {
        const { tree, nodes } = this;
        if (this.made)
            return this.made.length > 0;
        return this.up ? nodes.some((node) => tree.parent[node] !== 0)
            : nodes.some((node) => tree.total[node] > tree.self[node]);
    }

    // Labels from the outermost frame to the innermost, as a stack is read.
    stack() {
        const labels = [];
        for (let row = this; row && row.label !== null; row = row.parent)
            labels.push(row.label);
        return this.up ? labels : labels.reverse();
    }

    // Labels from the view's beginning to here.
    path() {
        const labels = this.stack();
        return this.up ? labels.reverse() : labels;
    }

    // The row below here with these labels, as far as there are such.
    find(path) {
        let row = this;
        for (const label of path) {
            const next = row.children().find((child) => child.label === label);
            if (!next)
                break;
            row = next;
        }
        return row;
    }
}

function sortRows(rows) {
    return rows.sort((a, b) => b.total - a.total || a.label - b.label);
}

function top(tree, up) {
    const row = new Row(tree, up, null, null);
    row.depth = -1;
    return row;
}

// The roots of views: rows without a label. Their children are the first that are shown.
export function topDown(tree) {
    const row = top(tree, false);
    row.nodes.push(0);
    row.total = tree.total[0];
    row.self = tree.self[0];
    return row;
}

function gather(row, tree, nodes, weightOf) {
    const groups = new Map();
    for (const node of nodes) {
        const label = tree.label[node];
        if (!groups.has(label))
            groups.set(label, new Row(tree, row.up, label, row));
        groups.get(label).add(node, weightOf(node));
        row.total += weightOf(node);
    }
    row.made = sortRows([...groups.values()]);
    return row;
}

export function bottomUp(tree) {
    const nodes = [];
    for (let i = 1; i < tree.count; i++)
        if (tree.self[i])
            nodes.push(i);
    return gather(top(tree, true), tree, nodes, (node) => tree.self[node]);
}

// From a function down to what it calls, or up to who calls it. Calls of it within itself belong to the
// outermost one.
export function around(tree, label, up) {
    const nodes = [];
    for (let i = 1; i < tree.count;) {
        const found = tree.label[i] === label;
        if (found && tree.total[i])
            nodes.push(i);
        i += found ? tree.size[i] : 1;
    }
    return gather(top(tree, up), tree, nodes, (node) => tree.total[node]);
}

// Full call paths by what was charged to exactly them.
export function hotContexts(tree, most) {
    const nodes = [];
    for (let i = 1; i < tree.count; i++)
        if (tree.self[i])
            nodes.push(i);
    nodes.sort((a, b) => tree.self[b] - tree.self[a] || a - b);
    return nodes.slice(0, most);
}
