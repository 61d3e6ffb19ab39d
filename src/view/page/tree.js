// Trees of labels: what is looked at, as in src/query/tree.c and view.c. Nodes are in preorder, so that the
// subtree of a node is the numbers from its own to its own plus its size. Node 0 is the root.
import { NONE } from "./data.js";

export class Growth {
    constructor(room) {
        this.parent = new Uint32Array(room);
        this.label = new Uint32Array(room);
        this.self = new Float64Array(room);
        this.before = null; // when profiles are compared: what the older one has
        this.parent[0] = this.label[0] = NONE;
        this.count = 1;
        let slots = 16;
        while (slots * 0.75 < room)
            slots *= 2;
        // Three numbers for each slot, parent, label and node, side by side: one miss of the cache, not three.
        this.slots = new Uint32Array(4 * slots);
        this.mask = slots - 1;
    }

    // The child with a label, made if it is new.
    child(parent, label) {
        const { slots, mask } = this;
        let at = Math.imul(parent ^ Math.imul(label, 0x9e3779b1), 0x85ebca6b);
        at = (at ^ (at >>> 15)) & mask;
        for (let slot = 4 * at; slots[slot + 2]; slot = 4 * at) {
            if (slots[slot] === parent && slots[slot + 1] === label)
                return slots[slot + 2];
            at = (at + 1) & mask;
        }
        const node = this.count++;
        slots[4 * at] = this.parent[node] = parent;
        slots[4 * at + 1] = this.label[node] = label;
        slots[4 * at + 2] = node;
        return node;
    }
}

function sizesOf(parent, count) {
    const size = new Uint32Array(count).fill(1);
    for (let i = count - 1; i > 0; i--)
        size[parent[i]] += size[i];
    return size;
}

export class Tree {
    // Puts what has grown in preorder. `whole` is what shares are shares of; `moves`, if any, are nodes as they
    // grew, and then as they are.
    constructor(growth, whole, moves = null) {
        const count = growth.count, sizes = sizesOf(growth.parent, count), ends = new Uint32Array(count);
        this.count = count;
        this.whole = whole;
        this.parent = new Uint32Array(count);
        this.label = new Uint32Array(count);
        this.self = new Float64Array(count);
        ends[0] = count;
        for (let i = 0; i < count; i++) {
            const parent = growth.parent[i];
            if (i) {
                ends[i] = ends[parent];
                ends[parent] -= sizes[i];
            }
        }
        // All children have taken their room: what is left of a node's ends just behind itself.
        for (let i = 0; i < count; i++) {
            const to = ends[i] - 1;
            this.parent[to] = i ? ends[growth.parent[i]] - 1 : NONE;
            this.label[to] = growth.label[i];
            this.self[to] = growth.self[i];
        }
        for (let i = 0; moves && i < moves.length; i++)
            if (moves[i] !== NONE)
                moves[i] = ends[moves[i]] - 1;
        if (growth.before) {
            this.before = new Float64Array(count);
            for (let i = 0; i < count; i++)
                this.before[ends[i] - 1] = growth.before[i];
            this.beforeTotal = this.sum(this.before);
        }
        this.size = sizesOf(this.parent, count);
        this.total = this.sum(this.self);
    }

    // Of whole subtrees.
    sum(values) {
        const sums = Float64Array.from(values);
        for (let i = this.count - 1; i > 0; i--)
            sums[this.parent[i]] += sums[i];
        return sums;
    }

    // Labels from the outermost frame to the node.
    path(node) {
        const labels = [];
        for (let at = node; at > 0; at = this.parent[at])
            labels.push(this.label[at]);
        return labels.reverse();
    }
}

function threadIsNamed(profile, index, wanted) {
    const thread = profile.threads[index];
    return thread ? thread[0] === wanted || String(thread[1]) === wanted : wanted === "(not known)";
}

function processIsNamed(profile, threadIndex, wanted) {
    const thread = profile.threads[threadIndex], process = thread && profile.processes[thread[2]];
    return process ? process.name === wanted || String(process.pid) === wanted : wanted === "(not known)";
}

function phaseIsNamed(profile, index, wanted) {
    return (index === NONE ? "(no phase)" : profile.phases[index]) === wanted;
}

// The roots that a selection chooses. A selection of what does not exist chooses nothing.
export function chosenRoots(profile, selection) {
    const chosen = [];
    for (let i = 0; i < profile.rootCount; i++) {
        const thread = profile.rootThread[i];
        if ((!selection.thread || threadIsNamed(profile, thread, selection.thread)) &&
            (!selection.process || processIsNamed(profile, thread, selection.process)) &&
            (!selection.phase || phaseIsNamed(profile, profile.rootPhase[i], selection.phase)))
            chosen.push(i);
    }
    return chosen;
}

function roomFor(profile, roots, inlined) {
    let room = 1;
    for (const root of roots) {
        const first = profile.rootFirst[root], end = profile.rootFirst[root + 1];
        room += 2 + end - first;
        for (let i = first; inlined && i < end; i++) {
            const frame = profile.nodeFrame[i];
            if (frame !== NONE)
                room += profile.frameFirst[frame + 1] - profile.frameFirst[frame] - 1;
        }
    }
    return room;
}

// The nodes of one root. The labels of entries say what each is: a function, or a line of one.
function growRoot(profile, root, options, growth, targets) {
    const { nodeParent, nodeFrame, frameFirst } = profile;
    const values = profile.values[options.metric], ofCalls = profile.metrics[options.metric].ofCalls;
    const labels = options.entryLabels, first = profile.rootFirst[root], end = profile.rootFirst[root + 1];
    let sum = 0;
    for (let i = first; i < end; i++) {
        const parent = nodeParent[i], frame = nodeFrame[i];
        let target = parent !== NONE && parent >= first ? targets[parent] : 0, holder = target;
        if (frame !== NONE && parent !== NONE) {
            const from = frameFirst[frame], to = options.inlined ? frameFirst[frame + 1] : from + 1;
            holder = target = growth.child(target, labels[from]);
            for (let entry = from + 1; entry < to; entry++)
                target = growth.child(target, labels[entry]);
        }
        targets[i] = target;
        if (!values[i])
            continue;
        if (target === 0)
            holder = target = growth.child(0, options.nothing);
        const at = ofCalls ? holder : target;
        growth.self[at] += values[i];
        sum += values[i];
        if (options.moves)
            options.moves[i] = at;
    }
    return sum;
}

// The tree of a selection: {metric, thread, process, phase, inlined}. `labels` has entryLabel and nothingLabel:
// the profile itself, or what tells lines apart. `moves`, if any, gets by node of the profile where its value went.
export function growTree(profile, selection, labels = profile, moves = null) {
    const roots = chosenRoots(profile, selection);
    const options = { ...selection, entryLabels: labels.entryLabel, nothing: labels.nothingLabel, moves };
    const growth = new Growth(roomFor(profile, roots, selection.inlined));
    const targets = new Uint32Array(profile.nodeParent.length);
    let whole = 0;
    for (const root of roots)
        whole += growRoot(profile, root, options, growth, targets);
    return new Tree(growth, whole, moves);
}

// Calls `visit` for each node that has no ancestor with a mark, and a mark itself: by label.
export function outermost(tree, marks, visit) {
    for (let i = 1; i < tree.count;) {
        if (marks[tree.label[i]]) {
            visit(i);
            i += tree.size[i];
        } else {
            i++;
        }
    }
}

// Functions without their contexts. Calls of a function within itself are not counted again.
export function flatRows(tree, labelCount) {
    const self = new Float64Array(labelCount), total = new Float64Array(labelCount);
    const ends = new Uint32Array(labelCount), contexts = new Uint32Array(labelCount);
    for (let i = 1; i < tree.count; i++) {
        const label = tree.label[i];
        contexts[label]++;
        self[label] += tree.self[i];
        if (i >= ends[label]) {
            ends[label] = i + tree.size[i];
            total[label] += tree.total[i];
        }
    }
    const rows = [];
    for (let label = 0; label < labelCount; label++)
        if (total[label])
            rows.push({ label, self: self[label], total: total[label], contexts: contexts[label] });
    return rows;
}
