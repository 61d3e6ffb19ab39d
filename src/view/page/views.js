// The views: each fills the main part of the page from the model, and says what to do when it is left.
import { changeColour, palette } from "./colour.js";
import { Flame } from "./flame.js";
import { amountScale, amountText, countText, plural, shareOf, shareText, visible } from "./format.js";
import { inOrderOfTime } from "./chart.js";
import { explainFunctions } from "./kctx.js";
import { shortName } from "./names.js";
import { around, bottomUp, hotContexts, topDown } from "./rows.js";
import { Table, bar, element } from "./table.js";
import { heatMapView, timelineView } from "./timeline.js";
import { isTimed } from "./times.js";

const CONTEXTS_MAX = 1000, KCTX_MAX = 100, CHAIN_MAX = 60;

// A name with its module behind it, dimmed.
function nameCell(app, label) {
    const cell = element("span", { class: "label" }, element("span", { class: "function", text: shortName(app.labels.name(label)) }));
    const module = app.labels.module(label);
    if (module)
        cell.append(" ", element("span", { class: "module", text: module }));
    cell.title = app.labels.fullName(label);
    return cell;
}

function columnsOf(app, up) {
    const scale = amountScale(app.metric.unit, app.tree.whole), { whole } = app.tree;
    const name = { title: up ? "Function, called by" : "Function", kind: "name", cell: (row) => nameCell(app, row.label) };
    if (up)
        return [{ title: "Share", kind: "share", share: (row) => shareOf(row.total, whole), text: (row) => shareText(row.total, whole) },
            { title: app.metric.name, kind: "number", text: (row) => scale(row.total) }, name];
    return [
        { title: "Total", kind: "share", share: (row) => shareOf(row.total, whole), text: (row) => shareText(row.total, whole), sort: "total" },
        { title: "Self", kind: "share", share: (row) => shareOf(row.self, whole), text: (row) => shareText(row.self, whole), sort: "self" },
        { title: "Total", kind: "number", text: (row) => scale(row.total), onlyWide: true },
        { title: "Self", kind: "number", text: (row) => scale(row.self), onlyWide: true },
        name,
    ];
}

// How often, and what each cost, where that is known.
function countColumns(app) {
    const known = app.model.counts(app.state);
    // Returns that were seen by samples of time are a bound and no count: they are a metric of their own.
    if (!known || known.kind.countIsAtLeast)
        return [];
    const of = (row) => row.nodes.reduce((sum, node) => sum + known.counts[node], 0);
    return [{ title: known.kind.countMetric, kind: "number", text: (row) => countText(of(row)), onlyWide: true },
        { title: known.kind.perCount, kind: "number", onlyWide: true, text: (row) => of(row) ? amountText(app.metric.unit, row.total / of(row)) : "" }];
}

function treeTable(app, root, title) {
    const columns = columnsOf(app, root.up).map((column) => ({ ...column, sort: undefined }));
    if (!root.up)
        columns.splice(4, 0, ...countColumns(app));
    const table = new Table(columns, {
        choose: (row) => app.choose(row),
        open: (row) => app.go({ view: "butterfly", function: app.labels.fullName(row.label) }),
        children: (row) => row.children(),
        hasChildren: (row) => row.hasChildren(),
        marked: (row) => app.marks?.[row.label],
    }, title);
    app.main.append(table.box);
    table.show(root.children());
    table.openHotPath();
    return table;
}

// ---- Flame graphs

function colouring(app) {
    if (app.comparison)
        return { of: (row) => changeColour(app.comparison, row, app.isDark()), legend: [] };
    const made = palette(app.labels, app.tree, app.state.colour || "module", app.isDark());
    return { of: (row) => made.of(row.label), legend: made.legend };
}

function legendOf(items) {
    return element("div", { class: "legend", "aria-hidden": "true" }, ...items.map(({ text, colour }) => {
        const swatch = element("i");
        swatch.style.background = colour;
        return element("span", {}, swatch, element("span", { text }));
    }));
}

function pictureOf(app, root, zoomed, title, colourOf) {
    const scale = amountScale(app.metric.unit, app.tree.whole), { whole } = app.tree;
    return {
        root, zoomed, labels: app.labels, marks: app.marks, colourOf, title, whole, unitText: scale,
        rootText: `${scale(root.total)}${root.total === whole ? "" : `, ${shareText(root.total, whole)} of all`}`,
        tipOf: (row) => [app.labels.fullName(row.label), app.numbersText(row)],
    };
}

function addFlame(app, parent, root, title, colours, zoomed = root) {
    const flame = new Flame({
        hover: (row) => app.hover(row && row.label !== null ? row : null),
        choose: (row) => row.label !== null && app.choose(row),
        zoom: (row) => app.zoom(row),
    });
    parent.append(flame.box);
    flame.show(pictureOf(app, root, zoomed, title, colours.of));
    return flame;
}

// The calls of each thread in order of time; null where no sample that is chosen has one.
function timedRoot(app) {
    const model = app.baseModel, side = model.sideOf(app.state), profile = app.base[side];
    const key = `in order of time ${model.selectionKey(app.state, side)} ${JSON.stringify(app.range)}`;
    return model.once(key, () => inOrderOfTime(profile, model.metricIndex(profile, app.state.metric), app.state, app.range, model.placed(app.state)));
}

// What a flame graph begins with, and which of the three it is.
function flameRoot(app) {
    if (app.state.up)
        return [bottomUp(app.tree), "up", "Flame graph of callers"];
    const timed = app.inTimeOrder() ? timedRoot(app) : null;
    return timed ? [timed, "timed", "Flame graph in order of time"] : [topDown(app.tree), "down", "Flame graph"];
}

function flameView(app) {
    const [root, kind, title] = flameRoot(app), zoomed = root.find(app.state.zoom), colours = colouring(app);
    const turn = (to, text, change) => element("button", {
        text, "aria-pressed": String(kind === to), onclick: () => app.go({ ...change, zoom: [] }),
    });
    const hasTimes = isTimed(app.base[app.baseModel.sideOf(app.state)], app.metric.name);
    app.main.append(element("div", { class: "tools" },
        element("div", { class: "choice", role: "group", "aria-label": "direction" },
            turn("down", "callers → callees", { up: false, timed: false }), turn("up", "what runs → callers", { up: true, timed: false }),
            hasTimes ? turn("timed", "in order of time", { up: false, timed: true }) : null),
        element("label", { text: "colour " }, app.colourChoice()),
        legendOf(colours.legend)));
    const flame = addFlame(app, app.main, root, title, colours, zoomed);
    app.picture = flame.what;
    if (zoomed !== root && zoomed.label !== null)
        app.choose(zoomed);
    return flame;
}

// ---- Tables

function topDownView(app) {
    return treeTable(app, topDown(app.tree), "Top-down: callees below their callers");
}

function bottomUpView(app) {
    return treeTable(app, bottomUp(app.tree), "Bottom-up: callers below what they call");
}

const byName = (app) => (a, b) => app.labels.name(a.label) < app.labels.name(b.label) ? -1 : 1;

function functionsView(app) {
    const sort = app.state.sort || "self", columns = columnsOf(app, false);
    const name = columns.pop();
    [columns[0], columns[1], columns[2], columns[3]] = [columns[1], columns[0], columns[3], columns[2]];
    columns.push({ title: "Contexts", kind: "number", text: (row) => countText(row.contexts), sort: "contexts", onlyWide: true },
        { ...name, sort: "name" });
    const table = new Table(columns, {
        choose: (row) => app.choose(row),
        open: (row) => app.go({ view: "butterfly", function: app.labels.fullName(row.label) }),
        sort: (key) => app.go({ sort: key }),
        marked: (row) => app.marks?.[row.label],
    }, "Functions");
    const rows = app.model.functions(app.state);
    rows.sort(sort === "name" ? byName(app) : (a, b) => b[sort] - a[sort] || b.self - a.self || b.total - a.total || byName(app)(a, b));
    app.main.append(table.box);
    table.show(app.marks ? rows.filter((row) => app.marks[row.label]) : rows, sort, app.cutNote());
    return table;
}

// The function that is asked for, or else the heaviest.
function chosenFunction(app, heaviestBy = "self") {
    const rows = app.model.functions(app.state).filter((row) => app.labels.isCode(row.label));
    rows.sort((a, b) => b[heaviestBy] - a[heaviestBy]);
    return rows.find((row) => app.labels.fullName(row.label) === app.state.function) ||
        (!app.state.function && rows[0]) || null;
}

// Of functions whose source is in the page, the heaviest, of people's own before those of headers; null where there
// is none.
function heaviestWithSource(app) {
    const { entryLabel, entryFile, sources, files } = app.profile, known = (sources || []).map(([file]) => file);
    const rows = app.model.functions(app.state).filter((row) => row.self);
    for (const some of [known.filter((file) => !(files.get(file) || "").startsWith("/usr/")), known]) {
        const wanted = new Set(some), labels = new Set(entryLabel.filter((_, entry) => wanted.has(entryFile[entry])));
        const found = rows.filter((row) => labels.has(row.label));
        if (found.length)
            return found.reduce((a, b) => b.self > a.self ? b : a);
    }
    return null;
}

// A list of functions to choose from, heaviest first.
function functionChoice(app, row) {
    const list = element("datalist", { id: "functions" }), rows = app.model.functions(app.state);
    rows.sort((a, b) => b.self - a.self);
    for (const one of rows.filter((item) => app.labels.isCode(item.label)).slice(0, 500))
        list.append(element("option", { value: app.labels.fullName(one.label) }));
    const input = element("input", {
        list: "functions", size: "48", spellcheck: "false", "aria-label": "function",
        onchange: () => app.go({ function: input.value }), onfocus: () => input.select(),
    });
    input.value = row ? app.labels.fullName(row.label) : app.state.function;
    return element("label", { class: "grow", text: "function " }, input, list);
}

function numbersOf(app, row) {
    const scale = amountScale(app.metric.unit, app.tree.whole);
    return `self ${scale(row.self)} (${shareText(row.self, app.tree.whole)}), total ${scale(row.total)} ` +
        `(${shareText(row.total, app.tree.whole)}), ${plural(row.contexts, "context")}`;
}

function nothing(app, text) {
    app.main.append(element("p", { class: "nothing", text }));
    return null;
}

function butterflyView(app) {
    const row = chosenFunction(app);
    app.main.append(element("div", { class: "tools" }, functionChoice(app, row),
        element("span", { class: "numbers", text: row ? numbersOf(app, row) : "" })));
    if (!row)
        return nothing(app, app.state.function ? `${app.state.function} is not in this selection.` : "There are no functions.");
    const colours = colouring(app), flames = [];
    for (const up of [true, false]) {
        const part = element("section", { class: "half" }, element("h2", { text: up ? "Who calls it" : "What it calls" }));
        app.main.append(part);
        flames.push(addFlame(app, part, around(app.tree, row.label, up), up ? "Callers" : "Callees", colours));
    }
    app.picture = flames[1].what;
    app.choose(row);
    return { close: () => flames.forEach((flame) => flame.close()) };
}

// Functions that call each other, outermost first; of very long chains the inner end.
function chain(app, labels) {
    const made = element("span", { class: "chain" }), hidden = Math.max(labels.length - CHAIN_MAX, 0);
    if (hidden)
        made.append(element("span", { class: "arrow", text: `(${plural(hidden, "outer frame")})` }));
    labels.slice(hidden).forEach((label, i) => {
        if (i || hidden)
            made.append(element("span", { class: "arrow", text: " → " }));
        made.append(element("button", {
            class: "link", text: shortName(app.labels.name(label)), title: app.labels.fullName(label),
            onclick: () => app.go({ view: "butterfly", function: app.labels.fullName(label) }),
        }));
    });
    return made;
}

function cardOf(app, value, label, ...rest) {
    const { whole } = app.tree;
    return element("article", { class: "card", tabindex: "0", onfocus: () => app.choose({ label, self: value, total: value, nodes: [] }) },
        element("header", {}, element("div", { class: "share" }, bar(shareOf(value, whole)), element("b", { text: shareText(value, whole) })),
            element("span", { class: "amount", text: amountText(app.metric.unit, value) }), nameCell(app, label)), ...rest);
}

function contextsView(app) {
    const list = element("div", { class: "cards", role: "feed", "aria-label": "Hot contexts" });
    const found = hotContexts(app.tree, CONTEXTS_MAX), wanted = (node) => !app.marks || app.tree.path(node).some((label) => app.marks[label]);
    for (const node of found.filter(wanted).slice(0, 200))
        list.append(cardOf(app, app.tree.self[node], app.tree.label[node], chain(app, app.tree.path(node))));
    app.main.append(list);
    return found.length ? null : nothing(app, "Nothing was measured here.");
}

const VERDICTS = {
    "one chain": "one chain explains it",
    "several callers": "a few callers explain it",
    "spread": "spread over many callers",
    "no callers": "no callers are known",
};

function kctxView(app) {
    const list = element("div", { class: "cards", role: "feed", "aria-label": "Why functions are hot" });
    for (const found of explainFunctions(app.labels, app.tree, KCTX_MAX, app.model.callersKept(app.state))) {
        if (app.marks && !app.marks[found.label])
            continue;
        const shown = found.verdict === "spread" ? found.chains.slice(0, 3) : found.chains;
        const rest = found.value - shown.reduce((sum, one) => sum + one.value, 0);
        const lines = shown.map((one) => element("div", { class: "why" },
            element("b", { text: shareText(one.value, found.value) }), chain(app, one.callers.concat(found.label)),
            one.alwaysFrom.length ? element("small", {}, "always from ", chain(app, one.alwaysFrom)) : null));
        if (rest > 0 && found.callerCount)
            lines.push(element("div", { class: "why" }, element("b", { text: shareText(rest, found.value) }), element("span", { text: "by other ways" })));
        list.append(cardOf(app, found.value, found.label, element("p", { class: "verdict", text: VERDICTS[found.verdict] +
            (found.verdict === "spread" ? ` (${countText(found.callerCount)})` : "") }), ...lines));
    }
    app.main.append(list);
    return list.childElementCount ? null : nothing(app, "Nothing was measured here.");
}

// ---- Source

// One line of source or one instruction, with what it cost.
function costLine(app, cost, at, text) {
    const { whole } = app.tree, scale = amountScale(app.metric.unit, whole), has = cost && cost.total;
    return element("div", { class: has ? "line cost" : "line" },
        element("span", { class: "share" }, bar(has ? shareOf(cost.total, whole) : 0), element("span", { text: has ? shareText(cost.total, whole) : "" })),
        element("span", { class: "number", text: has && cost.self ? scale(cost.self) : "" }),
        element("span", { class: "number at", text: at }), element("code", { text }));
}

function addSource(app, list, label) {
    const costs = app.model.lineRows(app.state, label), files = [...new Set(costs.map((cost) => cost.file))];
    const weight = (file) => costs.reduce((sum, cost) => sum + (cost.file === file ? cost.total : 0), 0);
    for (const file of files.sort((a, b) => weight(b) - weight(a))) {
        const texts = app.profile.sourceLines(file), known = new Map(costs.filter((cost) => cost.file === file).map((cost) => [cost.line, cost]));
        list.append(element("h2", { text: app.profile.fileName(file) || "(no line is known: no debug information)" }));
        if (file && !texts.size)
            list.append(element("div", { class: "gap", text: "This file is not on this machine, or not where it was: --source-dir DIR says where it is." }));
        const near = (line) => [...known.keys()].some((one) => Math.abs(one - line) <= 5);
        const numbers = [...new Set([...known.keys(), ...texts.keys()])].filter(near).sort((a, b) => a - b);
        numbers.forEach((line, i) => {
            if (i && line > numbers[i - 1] + 1)
                list.append(element("div", { class: "gap", text: "⋯" }));
            list.append(costLine(app, known.get(line), line || "", texts.get(line) ?? ""));
        });
    }
}

// Far from what costs something, instructions are left out.
function addInstructions(app, list, label) {
    const rows = app.model.instructionRows(app.state, label), near = 8;
    if (!rows) {
        list.append(element("p", { class: "nothing", text: "The instructions of this function are not in the page: its module is not on this machine, or it costs too little (calltrail report --lines … --asm)." }));
        return;
    }
    let last = -1;
    rows.forEach((row, i) => {
        if (!rows.slice(Math.max(i - near, 0), i + near + 1).some((one) => one.total))
            return;
        if (i > last + 1)
            list.append(element("div", { class: "gap", text: "⋯" }));
        last = i;
        list.append(costLine(app, row, row.offset.toString(16), visible(row.text)));
    });
}

function linesView(app) {
    const { code } = app.state, row = (!code && !app.state.function && heaviestWithSource(app)) || chosenFunction(app);
    const turn = (to, text) => element("button", { text, "aria-pressed": String(code === to), onclick: () => app.go({ code: to }) });
    app.main.append(element("div", { class: "tools" }, functionChoice(app, row),
        element("div", { class: "choice", role: "group", "aria-label": "what is shown" }, turn(false, "source"), turn(true, "instructions")),
        element("span", { class: "numbers", text: row ? numbersOf(app, row) : "" })));
    if (!row)
        return nothing(app, `${app.state.function} is not in this selection.`);
    const list = element("div", { class: "source" });
    app.main.append(element("div", { class: "line title" }, ...["total", "self", code ? "offset" : "line", code ? "instruction" : "source"]
        .map((text) => element("span", { class: "number", text }))), list);
    if (code)
        addInstructions(app, list, row.label);
    else
        addSource(app, list, row.label);
    app.choose(row);
    return null;
}

function structureView(app) {
    const scale = amountScale(app.metric.unit, app.tree.whole), { whole } = app.tree, root = app.model.structure(app.state);
    const table = new Table([
        { title: "Self", kind: "share", share: (place) => shareOf(place.self, whole), text: (place) => shareText(place.self, whole) },
        { title: app.metric.name, kind: "number", text: (place) => scale(place.self) },
        {
            title: "Module → file → function → line", kind: "name", cell: (place) => element("span", { class: `label place-${place.kind}` },
                element("span", { class: place.kind === "function" ? "function" : "", text: place.name })),
        },
    ], {
        choose: (place) => place.label !== null && app.choose({ label: place.label, self: place.self, total: place.self, nodes: [] }),
        open: (place) => place.label !== null && app.go({ view: place.kind === "line" ? "lines" : "butterfly", function: app.labels.fullName(place.label) }),
        children: (place) => place.children(),
        hasChildren: (place) => place.below.size > 0,
        marked: (place) => place.label !== null && app.marks?.[place.label],
    }, "Structure: module, file, function, line");
    app.main.append(table.box);
    table.show(root.children());
    const wanted = root.places().filter((place) => place.kind === "function" && app.labels.fullName(place.label) === app.state.function);
    if (wanted.length)
        table.reveal(wanted.reduce((a, b) => b.self > a.self ? b : a));
    else
        table.openHotPath();
    return table;
}

// ---- Two profiles

function compareView(app) {
    const { comparison } = app, scale = amountScale(app.metric.unit, Math.max(app.tree.whole, app.tree.wholeBefore)), showsAll = app.state.sort === "all";
    const signed = (value) => `${value < 0 ? "−" : "+"}${scale(Math.abs(value))}`;
    const root = topDown(app.tree), colours = colouring(app), zoomed = root.find(app.state.zoom);
    const relative = app.tree.wholeBefore ? `, ${(100 * (app.tree.whole / app.tree.wholeBefore - 1)).toFixed(1)}%` : "";
    app.main.append(element("div", { class: "tools" },
        element("span", { class: "numbers", text: `total ${scale(app.tree.wholeBefore)} → ${scale(app.tree.whole)} (${signed(app.tree.whole - app.tree.wholeBefore)}${relative})` }),
        legendOf([{ text: "more", colour: "hsl(24 88% 66%)" }, { text: "less", colour: "hsl(208 88% 66%)" }, { text: "within noise", colour: "hsl(0 0% 80%)" }]),
        element("button", { text: "within noise, too", "aria-pressed": String(showsAll), onclick: () => app.go({ sort: showsAll ? "" : "all" }) })));
    const flame = addFlame(app, app.main, root, "What changed: flame graph of the newer profile", colours, zoomed);
    flame.box.classList.add("upper");
    app.picture = flame.what;
    const shown = comparison.rows.filter((row) => (showsAll || row.changed) && (!app.marks || app.marks[row.label]));
    const table = new Table([
        { title: "Change", kind: "number", text: (row) => signed(row.change) },
        { title: "Before", kind: "number", text: (row) => scale(row.before), onlyWide: true },
        { title: "After", kind: "number", text: (row) => scale(row.after), onlyWide: true },
        { title: "", kind: "text", width: "5em", cell: (row) => element("span", { class: `what ${row.what}`, text: row.what }) },
        { title: "Of", kind: "text", width: "4em", text: (row) => row.measure },
        { title: "Function", kind: "name", cell: (row) => nameCell(app, row.label) },
    ], { choose: (row) => app.choose({ ...row, self: row.after, total: row.after, nodes: [] }), sort: () => {} }, "Functions that changed");
    app.main.append(table.box);
    const changed = comparison.rows.filter((row) => row.changed).length;
    table.show(shown, "", `${plural(changed, "comparison")} beyond noise, ${countText(comparison.rows.length - changed)} within it.`);
    return { close: () => [flame, table].forEach((part) => part.close()) };
}

// ---- How good the data is

function factText(app, value) {
    if (typeof value !== "number")
        return app.shown(String(value));
    return Number.isInteger(value) ? countText(value) : String(Number(value.toPrecision(6)));
}

function qualityView(app) {
    const { profile } = app, list = element("div", { class: "quality" });
    for (const warning of app.warnings())
        list.append(element("p", { class: "warning", text: warning }));
    if (!app.warnings().length)
        list.append(element("p", { class: "good", text: "Nothing is known that is wrong with this data." }));
    const table = (title, rows) => element("section", {}, element("h2", { text: title }),
        element("table", {}, ...rows.map((row) => element("tr", {}, ...row.map((text, i) => element(i ? "td" : "th", { text: String(text), scope: i ? undefined : "row" }))))));
    list.append(
        table("What ran", profile.processes.slice(0, 100).map((process) => [`pid ${process.pid}`, app.shown(process.arguments.join(" ") || process.command),
            process.seconds ? `${process.seconds.toFixed(3)} s` : ""])),
        table("What was measured", profile.metrics.map((metric, i) => [app.shown(metric.name),
            amountText(metric.unit, profile.values[i].reduce((sum, value) => sum + value, 0)), metric.kind, app.shown(metric.about)])),
        table("What is known of it", profile.facts.slice(0, 400).map(([metric, key, value]) => [app.shown(key),
            metric < 0 ? "" : app.shown(profile.metrics[metric]?.name ?? ""), factText(app, value)])));
    app.main.append(list);
    return null;
}

export const VIEW_MAKERS = {
    timeline: timelineView, heatmap: heatMapView,
    flame: flameView, topdown: topDownView, bottomup: bottomUpView, functions: functionsView, butterfly: butterflyView,
    contexts: contextsView, kctx: kctxView, lines: linesView, structure: structureView, compare: compareView, quality: qualityView,
};
