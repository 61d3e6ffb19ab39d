// Two profiles: what is the same in both, what changed, and what noise explains; as src/query/diff.c and noise.c.
import { NONE, Kind } from "./data.js";
import { fileOf, visible } from "./format.js";
import { Growth, Tree, flatRows } from "./tree.js";

const FALSE_ALARMS = 0.05, RUN_TO_RUN = 0.02, VISIBLE = 2, VISIBLE_PART = 0.9, SEEN_SHARE = 0.001;

// ---- Noise: see src/query/noise.h. A side is {value, whole, period}.

function variance(a, b, weights, rate, shares) {
    if (a.period <= 0 && b.period <= 0)
        return 0;
    const rest = shares ? 1 - rate : 1, runs = RUN_TO_RUN * rate * rest;
    return rate * rest * (a.period / weights[0] + b.period / weights[1]) + 2 * runs * runs;
}

function commonRate(a, b, weights) {
    if (a.period <= 0)
        return a.value / weights[0];
    if (b.period <= 0)
        return b.value / weights[1];
    return (a.value / a.period + b.value / b.period) / (weights[0] / a.period + weights[1] / b.period);
}

function plainScore(a, b, shares) {
    const byShare = shares && a.whole > 0 && b.whole > 0, weights = byShare ? [a.whole, b.whole] : [1, 1];
    const change = b.value / weights[1] - a.value / weights[0];
    const square = variance(a, b, weights, commonRate(a, b, weights), byShare);
    return change === 0 ? 0 : square > 0 ? change / Math.sqrt(square) : Math.sign(change) * Infinity;
}

// What is left when late ticks are taken from what grew, and from the whole that the other is a part of.
function scoreOf(older, newer, late, shares) {
    const a = { ...older }, b = { ...newer }, plain = plainScore(a, b, shares), grew = plain > 0;
    const more = grew ? b : a, less = grew ? a : b;
    more.value = Math.max(more.value - late[grew ? 1 : 0], 0);
    less.whole = Math.max(less.whole - late[grew ? 0 : 1], less.value);
    const rest = plainScore(a, b, shares);
    return plain * rest > 0 ? rest : 0;
}

// How many standard errors it would be if this grew by half.
function effectOf(a, b) {
    if (a.period <= 0 && b.period <= 0)
        return Infinity;
    if (a.whole <= 0 || b.whole <= 0)
        return 0;
    const weights = [a.whole, b.whole], rate = commonRate(a, b, weights), square = variance(a, b, weights, rate, true);
    return square > 0 ? 0.4 * rate * (1 - rate) / Math.sqrt(square) : 0;
}

// erfc(x) for x >= 0 by its continued fraction, and by its series where that is slow.
function erfc(x) {
    if (x < 2) {
        let term = x, sum = x;
        for (let n = 1; Math.abs(term) > 1e-17 * sum && n < 200; n++) {
            term *= -x * x / n;
            sum += term / (2 * n + 1);
        }
        return 1 - 2 / Math.sqrt(Math.PI) * sum;
    }
    let fraction = 0;
    for (let n = 60; n > 0; n--)
        fraction = n / 2 / (x + fraction);
    return Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction);
}

const chance = (threshold) => erfc(threshold / Math.SQRT2);

function limitsOf(effects) {
    const seen = effects.filter((effect) => effect >= VISIBLE && effect !== Infinity);
    const risk = (price) => seen.reduce((sum, effect) => sum + chance(effect / 2 + price / effect), 0);
    let low = 0, high = 1;
    while (high < 1e6 && risk(high) > FALSE_ALARMS * VISIBLE_PART)
        high *= 2;
    for (let i = 0; i < 60; i++) {
        const middle = (low + high) / 2;
        if (risk(middle) > FALSE_ALARMS * VISIBLE_PART)
            low = middle;
        else
            high = middle;
    }
    const count = effects.filter((effect) => effect < VISIBLE).length;
    let small = 0;
    while (chance(small) * count > FALSE_ALARMS * (1 - VISIBLE_PART))
        small += 0.01;
    return { price: high, small };
}

function thresholdOf(limits, effect) {
    return effect === Infinity ? 0 : effect < VISIBLE ? limits.small : effect / 2 + limits.price / effect;
}

// ---- What is the same

function keyTexts(profile, other, renamed) {
    const program = fileOf(profile.processes[0]?.command ?? "");
    const builds = new Set(other.modules.map(([path, build]) => `${fileOf(path)}\n${build}`));
    return profile.rawNames.map((raw, label) => {
        const index = profile.labelModules[label], code = profile.isCode(label) && index >= 0;
        let module = code ? profile.moduleFiles[index] : "", name = raw;
        const place = profile.labelKinds[label] === Kind.PLACE && index >= 0;
        if (place && !builds.has(`${module}\n${profile.modules[index][1]}`))
            name = "(code without a name)";
        if (renamed && module === program)
            module = renamed;
        return `${module}\n${name}`;
    });
}

// The newer program's file if the two are the same under another name.
function renamedTo(older, newer) {
    const first = fileOf(older.processes[0]?.command ?? ""), second = fileOf(newer.processes[0]?.command ?? "");
    const has = (profile, file) => profile.moduleFiles.includes(file);
    return first && second && has(older, first) && has(newer, second) && !has(older, second) &&
        !has(newer, first) ? second : null;
}

// Labels of both profiles as one set, with what views ask a profile for.
class JoinedLabels {
    constructor(older, newer) {
        const renamed = renamedTo(older, newer), keys = new Map();
        this.names = [];
        this.rawNames = [];
        this.kinds = [];
        this.moduleNames = [];
        this.of = [[older, newer], [newer, older]].map(([profile, other]) => Uint32Array.from(
            keyTexts(profile, other, renamed), (text, label) => {
                if (!keys.has(text)) {
                    const [module, ...name] = text.split("\n");
                    keys.set(text, keys.size);
                    this.rawNames.push(name.join("\n"));
                    this.names.push(visible(name.join("\n")));
                    this.kinds.push(profile.labelKinds[label]);
                    this.moduleNames.push(visible(module));
                }
                return keys.get(text);
            }));
        this.labelCount = keys.size;
    }

    isCode(label) {
        return this.kinds[label] === Kind.FUNCTION || this.kinds[label] === Kind.PLACE;
    }

    name(label) {
        return this.names[label] || "(no name)";
    }

    module(label) {
        return this.moduleNames[label];
    }

    fullName(label) {
        const module = this.kinds[label] === Kind.FUNCTION ? this.module(label) : "";
        return module ? `${this.name(label)} [${module}]` : this.name(label);
    }
}

function joinTrees(labels, trees) {
    const room = 1 + trees[0].count + trees[1].count, growth = new Growth(room);
    growth.before = new Float64Array(room);
    trees.forEach((tree, side) => {
        const targets = new Uint32Array(tree.count), values = side ? growth.self : growth.before;
        for (let i = 1; i < tree.count; i++) {
            targets[i] = growth.child(targets[tree.parent[i]], labels.of[side][tree.label[i]]);
            values[targets[i]] += tree.self[i];
        }
    });
    const joined = new Tree(growth, trees[1].whole);
    joined.wholeBefore = trees[0].whole;
    return joined;
}

// ---- What changed

const what = (row) => !row.changed ? "same" : !row.before ? "new" : !row.after ? "gone" : row.after > row.before ? "grew" : "shrank";

export class Comparison {
    // Of two profiles and their trees, the older one first; metrics are those that the trees are of.
    constructor(profiles, trees, metrics) {
        this.labels = new JoinedLabels(...profiles);
        this.tree = joinTrees(this.labels, trees);
        this.periods = metrics.map((metric) => metric.kind === "sampled" ? metric.period || 1 : 0);
        this.late = profiles.map((profile, side) => {
            const index = profile.metrics.indexOf(metrics[side]);
            const merged = profile.facts.find((fact) => fact[0] === index && fact[1] === "merged");
            return merged ? merged[2] * this.periods[side] : 0;
        });
        this.rows = this.functionRows();
        this.nodeLimits = this.limitsOfNodes();
    }

    sides(before, after) {
        return [{ value: before, whole: this.tree.wholeBefore, period: this.periods[0] },
            { value: after, whole: this.tree.whole, period: this.periods[1] }];
    }

    score(before, after) {
        const [a, b] = this.sides(before, after);
        const amount = scoreOf(a, b, this.late, false);
        if (a.period <= 0 && b.period <= 0)
            return amount;
        const share = scoreOf(a, b, this.late, true);
        if ((amount > 0) !== (share > 0))
            return 0;
        return Math.abs(amount) < Math.abs(share) ? amount : share;
    }

    functionRows() {
        const count = this.labels.labelCount, { tree } = this;
        const sums = (self, total) => flatRows({ ...tree, self, total, count: tree.count }, count);
        const table = new Map();
        const put = (side, rows) => {
            for (const { label, self, total } of rows) {
                if (!table.has(label))
                    table.set(label, { self: [0, 0], total: [0, 0] });
                table.get(label).self[side] = self;
                table.get(label).total[side] = total;
            }
        };
        put(0, sums(tree.before, tree.beforeTotal));
        put(1, sums(tree.self, tree.total));
        const rows = [];
        for (const [label, { self, total }] of table) {
            if (self[0] || self[1])
                rows.push({ label, measure: "self", before: self[0], after: self[1] });
            if (self[0] !== total[0] || self[1] !== total[1])
                rows.push({ label, measure: "total", before: total[0], after: total[1] });
        }
        const effects = rows.map((row) => effectOf(...this.sides(row.before, row.after)));
        const limits = limitsOf(effects);
        rows.forEach((row, i) => {
            row.change = row.after - row.before;
            row.score = this.score(row.before, row.after);
            row.changed = row.score !== 0 && Math.abs(row.score) >= thresholdOf(limits, effects[i]);
            row.what = what(row);
        });
        return rows.sort((a, b) => Math.abs(b.change) - Math.abs(a.change) || a.label - b.label);
    }

    // The budget of false alarms is for the contexts that can be seen in a picture.
    limitsOfNodes() {
        const { tree } = this, effects = [], least = SEEN_SHARE * Math.max(tree.whole, tree.wholeBefore);
        for (let i = 1; i < tree.count; i++)
            if (Math.max(tree.total[i], tree.beforeTotal[i]) >= least)
                effects.push(effectOf(...this.sides(tree.beforeTotal[i], tree.total[i])));
        return limitsOf(effects);
    }

    // A context, or several of one function: {before, after, changed}.
    ofRow(row) {
        let before = 0, after = 0;
        for (const node of row.nodes) {
            before += this.tree.beforeTotal[node];
            after += this.tree.total[node];
        }
        const score = this.score(before, after);
        const threshold = thresholdOf(this.nodeLimits, effectOf(...this.sides(before, after)));
        const changed = score !== 0 && Math.abs(score) >= threshold;
        return { before, after, change: after - before, changed, what: what({ before, after, changed }) };
    }
}
