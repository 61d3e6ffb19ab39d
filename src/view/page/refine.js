// Successive refinements of a tree, as in src/query/refine.c: for each old node, in preorder, which new node its
// value goes to, or none.
import { NONE } from "./data.js";
import { Growth, Tree } from "./tree.js";

// A pattern as a RegExp; one that is none matches itself as text.
export function patternOf(text, flags = "") {
    try {
        return new RegExp(text, flags);
    } catch {
        return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), flags);
    }
}

export function exactly(name) {
    return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

export function matchNames(profile, text, flags) {
    const pattern = patternOf(text, flags), marks = new Uint8Array(profile.labelCount);
    for (let label = 0; label < profile.labelCount; label++)
        marks[label] = profile.isCode(label) && pattern.test(profile.rawNames[label]) ? 1 : 0;
    return marks;
}

// Puts the value of an old node at a new one, and notes where that is if it is asked for.
function give(tree, i, growth, target, moves) {
    growth.self[target] += tree.self[i];
    if (moves)
        moves[i] = target;
}

function keepMatching(tree, marks, ignore, moves) {
    const matched = new Uint8Array(tree.count), needed = new Uint8Array(tree.count);
    const targets = new Uint32Array(tree.count), growth = new Growth(tree.count);
    for (let i = 1; i < tree.count; i++)
        matched[i] = matched[tree.parent[i]] || marks[tree.label[i]];
    for (let i = tree.count - 1; i > 0; i--) {
        if (!matched[i] === ignore)
            needed[i] = 1;
        if (needed[i])
            needed[tree.parent[i]] = 1;
    }
    for (let i = 1; i < tree.count; i++) {
        if (!needed[i])
            continue;
        targets[i] = growth.child(targets[tree.parent[i]], tree.label[i]);
        if (!matched[i] === ignore)
            give(tree, i, growth, targets[i], moves);
    }
    return new Tree(growth, tree.whole, moves);
}

function showFrom(tree, marks, moves) {
    const inside = new Uint8Array(tree.count), targets = new Uint32Array(tree.count);
    const growth = new Growth(tree.count);
    for (let i = 1; i < tree.count; i++) {
        const parent = tree.parent[i];
        inside[i] = inside[parent] || marks[tree.label[i]];
        targets[i] = targets[parent];
        if (inside[i]) {
            targets[i] = growth.child(targets[parent], tree.label[i]);
            give(tree, i, growth, targets[i], moves);
        }
    }
    return new Tree(growth, tree.whole, moves);
}

// Frames of other modules join their callers. What is no code of a module stays: a gap must not vanish.
function foldModules(tree, stays, foldedLabel, moves) {
    const targets = new Uint32Array(tree.count), growth = new Growth(tree.count + 1);
    for (let i = 1; i < tree.count; i++) {
        const parent = targets[tree.parent[i]];
        if (stays[tree.label[i]]) {
            targets[i] = growth.child(parent, tree.label[i]);
            give(tree, i, growth, targets[i], moves);
        } else {
            targets[i] = parent;
            if (tree.self[i])
                give(tree, i, growth, parent || growth.child(0, foldedLabel), moves);
        }
    }
    return new Tree(growth, tree.whole, moves);
}

// A function that is called while it is on the path of new nodes already continues there.
function foldRecursion(tree, labelCount, moves) {
    const growth = new Growth(tree.count), targets = new Uint32Array(tree.count);
    const onLabel = new Uint32Array(labelCount).fill(NONE), depths = new Uint32Array(tree.count);
    const path = [0], steps = [];
    for (let i = 1; i < tree.count; i++) {
        while (steps.length && steps[steps.length - 1].node !== tree.parent[i]) {
            const left = steps.pop();
            onLabel[left.label] = left.onLabel;
            path[left.depth] = left.entry;
        }
        const parent = targets[tree.parent[i]], label = tree.label[i], seen = onLabel[label];
        if (seen !== NONE && depths[seen] <= depths[parent] && path[depths[seen]] === seen) {
            targets[i] = seen;
        } else {
            targets[i] = growth.child(parent, label);
            depths[targets[i]] = depths[parent] + 1;
        }
        give(tree, i, growth, targets[i], moves);
        const depth = depths[targets[i]];
        steps.push({ node: i, label, onLabel: seen, depth, entry: path[depth] });
        onLabel[label] = path[depth] = targets[i];
    }
    return new Tree(growth, tree.whole, moves);
}

// Kinds of refinements, by the letter that the address has for them.
export const REFINEMENTS = {
    f: "focus",
    h: "hide",
    s: "show from",
    m: "only module",
    r: "fold recursion",
};

// One refinement: {kind, pattern}. `moves`, if any, gets by old node which new one its value went to; NONE: to none.
export function refine(profile, tree, { kind, pattern }, moves = null) {
    switch (kind) {
    case "f":
    case "h":
        return keepMatching(tree, matchNames(profile, pattern), kind === "h", moves);
    case "s":
        return showFrom(tree, matchNames(profile, pattern), moves);
    case "m": {
        const stays = new Uint8Array(profile.labelCount);
        for (let label = 0; label < profile.labelCount; label++)
            stays[label] = !profile.isCode(label) || profile.module(label) === pattern ? 1 : 0;
        return foldModules(tree, stays, profile.foldedLabel, moves);
    }
    case "r":
        return foldRecursion(tree, profile.labelCount, moves);
    default:
        return tree;
    }
}
