// The shortest chains of callers that explain where a function's cost comes from, as src/cct/explain.h says.
import { NONE } from "./data.js";

const PERCENT = 80, CALLERS_MAX = 10, CHAINS_MAX = 5;

function hasShare(value, whole) {
    return value * 100 >= whole * PERCENT;
}

const heavierFirst = (a, b) => b.value - a.value || a.label - b.label;

// Parts contexts by their next caller: {label, value, items: [[node, at]]}. A function that calls itself is not
// its own caller. Those without a caller are not among them.
function split(tree, items) {
    const groups = new Map();
    for (const [node, from] of items) {
        const label = tree.label[from];
        let at = from;
        do
            at = tree.parent[at];
        while (at > 0 && at !== NONE && tree.label[at] === label);
        if (at === 0 || at === NONE)
            continue;
        let group = groups.get(tree.label[at]);
        if (!group)
            groups.set(tree.label[at], group = { label: tree.label[at], value: 0, items: [] });
        group.value += tree.self[node];
        group.items.push([node, at]);
    }
    return [...groups.values()].sort(heavierFirst);
}

// The chain that begins with a caller and keeps its share: the shortest, and what it is always called from.
function chainFrom(tree, first, whole) {
    const labels = [];
    let caller = first, callers = 0, value = 0;
    while (caller && caller.value && hasShare(caller.value, whole)) {
        labels.push(caller.label);
        if (caller.value !== value)
            callers = labels.length;
        value = caller.value;
        if (labels.length === CALLERS_MAX)
            break;
        [caller] = split(tree, caller.items);
    }
    return { value, callers: labels.slice(0, callers).reverse(), alwaysFrom: labels.slice(callers).reverse() };
}

function explain(tree, label, value, nodes) {
    const direct = split(tree, nodes.map((node) => [node, node])), chains = [];
    if (direct.length && hasShare(direct[0].value, value)) {
        chains.push(chainFrom(tree, direct[0], value));
        return { label, value, callerCount: direct.length, verdict: "one chain", chains };
    }
    let seen = 0;
    for (const caller of direct.slice(0, CHAINS_MAX)) {
        seen += caller.value;
        chains.push(chainFrom(tree, caller, caller.value));
        if (hasShare(seen, value))
            break;
    }
    const verdict = !direct.length ? "no callers" : hasShare(seen, value) ? "several callers" : "spread";
    return { label, value, callerCount: direct.length, verdict, chains };
}

// The heaviest functions, each with what explains it.
export function explainFunctions(profile, tree, most) {
    const functions = new Map();
    for (let i = 1; i < tree.count; i++) {
        const label = tree.label[i];
        if (!tree.self[i] || !profile.isCode(label))
            continue;
        let entry = functions.get(label);
        if (!entry)
            functions.set(label, entry = { label, value: 0, nodes: [] });
        entry.value += tree.self[i];
        entry.nodes.push(i);
    }
    return [...functions.values()].sort(heavierFirst).slice(0, most)
        .map(({ label, value, nodes }) => explain(tree, label, value, nodes));
}
