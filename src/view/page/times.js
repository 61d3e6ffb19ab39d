// When samples came: entries of node, time and samples as src/view/page_times.h has them, and what they make of a
// profile in a range of time.
import { NONE } from "./data.js";
import { chosenRoots } from "./tree.js";

export const SECOND = 1e6;

// Seconds of the address, in microseconds; null where there are none.
function microseconds(text) {
    const seconds = text === "" ? NaN : Number(text);
    return seconds >= 0 && seconds <= 1e9 ? Math.round(seconds * SECOND) : null;
}

// {from, to} in microseconds, either of which may be null; null where none is chosen.
export function rangeOf({ from, to }) {
    const range = { from: microseconds(from), to: microseconds(to) };
    return range.from === null && range.to === null ? null : range;
}

export function hasTimes(profile) {
    return profile.timeNode.length > 0;
}

// Whether samples of a metric have times: by its name, which ranges of time do not change.
export function isTimed(profile, name) {
    return profile.times.groups.some(([metric]) => profile.metrics[metric].name === name);
}

// Calls `visit(node, time, value)` for each entry of a metric, time in microseconds.
export function eachTime(profile, metric, visit) {
    const { width, groups } = profile.times;
    let at = 0;
    for (const [of, value, count] of groups) {
        for (let i = at; of === metric && i < at + count; i++)
            visit(profile.timeNode[i], profile.timeAt[i] * width, profile.timeSamples[i] * value);
        at += count;
    }
}

// From the first time to behind the last, in microseconds.
export function spanOf(profile) {
    const { width, groups } = profile.times;
    let first = Infinity, last = 0, at = 0;
    for (const [, , count] of groups) {
        first = Math.min(first, profile.timeAt[at]);
        at += count;
        last = Math.max(last, profile.timeAt[at - 1]);
    }
    return { first: first * width, last: (last + 1) * width };
}

// Facts that count what the whole recording had say nothing of a part of it.
function isOfWhole([, key, value]) {
    return key !== "callers_kept" && typeof value === "number" && (Number.isInteger(value) || key.endsWith("_s"));
}

// The profile with the values of a range; metrics without times are gone.
export function inRange(profile, range) {
    const kept = [...new Set(profile.times.groups.map(([metric]) => metric))].sort((a, b) => a - b);
    const part = Object.create(profile), number = (metric) => kept.indexOf(metric);
    part.metrics = kept.map((metric) => profile.metrics[metric]);
    part.facts = profile.facts.filter((fact) => !isOfWhole(fact) && (fact[0] < 0 || number(fact[0]) >= 0))
        .map(([scope, ...rest]) => [scope < 0 ? scope : number(scope), ...rest]);
    part.values = kept.map((metric) => {
        const values = new Float64Array(profile.nodeParent.length);
        eachTime(profile, metric, (node, at, value) => {
            if ((range.from === null || at >= range.from) && (range.to === null || at < range.to))
                values[node] += value;
        });
        return values;
    });
    part.flatSelf = part.flatTotal = [];
    return part;
}

// The thread of each node, for the threads, processes and phases of the selection; NONE for all others. A thread that
// is not known has a number behind all others.
export function threadsOfNodes(profile, selection) {
    const threads = new Uint32Array(profile.nodeParent.length).fill(NONE);
    for (const root of chosenRoots(profile, selection))
        threads.fill(Math.min(profile.rootThread[root], profile.threads.length), profile.rootFirst[root], profile.rootFirst[root + 1]);
    return threads;
}

// Nodes whose context has a label with a mark, themselves or a caller.
export function nodesWithMarks(profile, marks) {
    const { nodeParent, nodeFrame, frameFirst, entryLabel } = profile, found = new Uint8Array(nodeParent.length);
    for (let i = 0; i < found.length; i++) {
        const frame = nodeFrame[i];
        found[i] = nodeParent[i] !== NONE ? found[nodeParent[i]] : 0;
        for (let entry = frame === NONE ? 0 : frameFirst[frame]; frame !== NONE && entry < frameFirst[frame + 1]; entry++)
            found[i] |= marks[entryLabel[entry]];
    }
    return found;
}

// The same for the nodes of a tree, by node of the profile: `moves` says where each is.
export function movedWithMarks(tree, moves, marks) {
    const found = new Uint8Array(tree.count);
    for (let i = 1; i < tree.count; i++)
        found[i] = found[tree.parent[i]] | marks[tree.label[i]];
    return Uint8Array.from(moves, (at) => at === NONE ? 0 : found[at]);
}

// The label of the innermost function of a node.
export function labelOfNode(profile, node) {
    const frame = profile.nodeFrame[node];
    return frame === NONE ? profile.nothingLabel : profile.entryLabel[profile.frameFirst[frame + 1] - 1];
}

// Seconds with as many digits as a step needs, for people and addresses.
export function secondsText(us, step = 1) {
    const digits = Math.min(Math.max(6 - Math.floor(Math.log10(Math.max(step, 1))), 0), 6);
    return (us / SECOND).toFixed(digits);
}
