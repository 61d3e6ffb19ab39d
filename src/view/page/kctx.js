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

// The chain that goes on behind the wrappers with a caller and keeps its share: the shortest, and what it is always
// called from.
function chainFrom(tree, wrappers, first, whole, most) {
    const labels = [...wrappers.labels];
    let caller = first, callers = labels.length, { value } = wrappers, isNamed = false;
    while (labels.length < most && caller && caller.value && hasShare(caller.value, whole)) {
        labels.push(caller.label);
        if (!isNamed || caller.value !== value)
            callers = labels.length;
        isNamed = true;
        value = caller.value;
        if (labels.length < most)
            [caller] = split(tree, caller.items);
    }
    return { value, callers: labels.slice(0, callers).reverse(), alwaysFrom: labels.slice(callers).reverse() };
}

function explain(profile, tree, { label, value, nodes }, most) {
    const wrappers = { labels: [], value: 0 }, chains = [];
    let direct = split(tree, nodes.map((node) => [node, node]));
    while (direct.length && profile.wrappers.has(direct[0].label) && wrappers.labels.length + 1 < most &&
        hasShare(direct[0].value, value)) {
        wrappers.labels.push(direct[0].label);
        wrappers.value = direct[0].value;
        direct = split(tree, direct[0].items);
    }
    // Where the last wrapper has no caller, they are the chain.
    const isWrapped = !direct.length && wrappers.labels.length > 0;
    if (isWrapped || (direct.length && hasShare(direct[0].value, value))) {
        chains.push(chainFrom(tree, wrappers, direct[0], value, most));
        return { label, value, callerCount: isWrapped ? 1 : direct.length, verdict: "one chain", chains };
    }
    let seen = 0;
    for (const caller of direct.slice(0, CHAINS_MAX)) {
        seen += caller.value;
        chains.push(chainFrom(tree, wrappers, caller, caller.value, most));
        if (hasShare(seen, value))
            break;
    }
    const verdict = !direct.length ? "no callers" : hasShare(seen, value) ? "several callers" : "spread";
    return { label, value, callerCount: direct.length, verdict, chains };
}

// The heaviest functions, each with what explains it; `callersKept`: as many as the recording kept, 0 for all.
export function explainFunctions(profile, tree, count, callersKept = 0) {
    const functions = new Map(), most = Math.min(callersKept || CALLERS_MAX, CALLERS_MAX);
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
    return [...functions.values()].sort(heavierFirst).slice(0, count).map((one) => explain(profile, tree, one, most));
}
