// The page: what stands around the views, and what happens when people do something.
import { Source, Kind } from "./data.js";
import { amountScale, amountText, countText, fileOf, plural, shareText, visible } from "./format.js";
import { helpSheet, listenToKeys } from "./keys.js";
import { Model, modelInRange } from "./model.js";
import { flameSvg, saveAs, svgToPng } from "./picture.js";
import { REFINEMENTS, exactly } from "./refine.js";
import { VIEWS, parseState, stateText } from "./state.js";
import { NARROW, element } from "./table.js";
import { VIEW_MAKERS } from "./views.js";
import { hasTimes, isTimed, rangeOf, secondsText } from "./times.js";
import { outermost } from "./tree.js";

const CHOICES_MAX = 300, NEVER_BAD = 0, SAMPLES_ENOUGH = 200;
const find = (id) => document.getElementById(id);

class App {
    constructor(profiles, from) {
        this.profiles = this.base = profiles;
        this.source = from;
        this.model = this.baseModel = new Model(profiles);
        this.closer = new Map(); // models of parts that the server was asked for, by what was asked
        this.main = find("main");
        this.search = find("search");
        this.help = find("help");
        this.shown = visible;
        this.chosen = null;
        this.theme = "";
        this.state = parseState(location.hash);
        this.detail = find("detail");
    }

    start() {
        const files = this.profiles.map((profile) => visible(fileOf(profile.file)));
        document.title = `${files.join(" → ")} · calltrail`;
        find("file").textContent = files.join(" → ");
        this.search.addEventListener("input", () => this.searchSoon());
        this.search.addEventListener("keydown", (event) => {
            if (event.key === "Enter")
                this.nextMatch(event.shiftKey ? -1 : 1);
        });
        find("theme").addEventListener("click", () => this.turnTheme());
        find("keys").addEventListener("click", () => this.showHelp());
        find("save-svg").addEventListener("click", () => this.savePicture("svg"));
        find("save-png").addEventListener("click", () => this.savePicture("png"));
        find("quality").addEventListener("click", () => this.go({ view: "quality" }));
        find("close-help").addEventListener("click", () => this.help.close());
        window.addEventListener("hashchange", () => this.arrive());
        for (const query of ["(prefers-color-scheme: dark)", NARROW])
            matchMedia(query).addEventListener("change", () => this.draw());
        listenToKeys(this);
        this.draw();
    }

    // ---- Where we are

    // Changes what is looked at. `quietly` keeps no place to come back to.
    go(change, quietly = false) {
        this.state = { ...this.state, ...change };
        const text = `#${stateText(this.state)}`;
        this.written = text;
        if (quietly)
            history.replaceState(null, "", text);
        else if (text !== (location.hash || "#"))
            location.hash = text;
        this.draw();
    }

    // Back, forward, or an address that was typed.
    arrive() {
        if (location.hash === this.written)
            return;
        this.written = location.hash;
        this.state = parseState(location.hash);
        this.draw();
    }

    views() {
        const timed = this.base.some(hasTimes);
        return VIEWS.filter(([name]) => (name !== "compare" || this.base.length > 1) && (timed || (name !== "timeline" && name !== "heatmap")));
    }

    isDark() {
        return this.theme ? this.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    }

    turnTheme() {
        this.theme = this.isDark() ? "light" : "dark";
        document.documentElement.dataset.theme = this.theme;
        this.draw();
    }

    // ---- A closer look

    // Whether the flame graph is in order of time: of samples that have times.
    inTimeOrder() {
        const { state, baseModel } = this, profile = this.base[baseModel.sideOf(state)];
        return state.timed && !state.up && state.view === "flame" && isTimed(profile, profile.metrics[baseModel.metricIndex(profile, state.metric)].name);
    }

    // What to ask the server for, where the page does not have all of it: "" if there is nothing. Times it has.
    wanted() {
        if (this.inTimeOrder())
            return "";
        const { thread, process, phase, zoom, up, inlined, refinements, view, from, to } = this.state;
        const inTree = (view === "flame" || view === "compare") && !up && inlined && !refinements.length;
        const path = inTree && view === "flame" ? zoom.map((label) => label.toString(36)).join(".") : "";
        const isCut = this.base.some((profile) => profile.cut.leftOut);
        const words = { thread, process, phase, zoom: path, ...(this.range ? { from, to } : {}) };
        return this.source.isServed && isCut && Object.values(words).some(Boolean) ? JSON.stringify(words) : "";
    }

    // Takes the part that was asked for already, or asks; until the answer is there, what we have must do.
    lookCloser() {
        this.range = this.base.every(hasTimes) ? rangeOf(this.state) : null;
        const key = this.wanted(), model = key ? this.closer.get(key) : null;
        this.model = model && model !== "asked" ? model : this.range ? modelInRange(this.baseModel, this.range) : this.baseModel;
        this.profiles = this.model.profiles;
        if (key && !model)
            this.ask(key);
    }

    // The functions of the whole profile, where the page has a part of its contexts: when they are looked at.
    async askFlat() {
        const { model, profiles } = this, side = model.sideOf(this.state), profile = profiles[side];
        if (!this.source.isServed || this.state.view !== "functions" || !profile.cut.leftOut || profile.flatSelf.length || profile.flatAsked ||
            (model !== this.baseModel && !model.words))
            return;
        const waiting = setTimeout(() => this.say("Reading the whole profile…", 600000), 500);
        profile.flatAsked = true;
        try {
            Object.assign(profile, await this.source.flat(side, model.words || {}));
            this.say("");
            if (this.model === model)
                this.draw();
        } catch (error) {
            this.say(`The server does not answer: ${error.message}`);
        }
        clearTimeout(waiting);
    }

    async ask(key) {
        const waiting = setTimeout(() => this.say("Reading more of the profile…", 60000), 500);
        if (this.closer.size >= 4)
            this.closer.delete(this.closer.keys().next().value);
        this.closer.set(key, "asked");
        try {
            const parts = await Promise.all(this.base.map((_, i) => this.source.part(i, JSON.parse(key))));
            this.closer.set(key, new Model(parts, JSON.parse(key)));
            clearTimeout(waiting);
            this.say("");
            if (this.wanted() === key)
                this.draw();
        } catch (error) {
            clearTimeout(waiting);
            this.say(`The server does not answer: ${error.message}`);
        }
    }

    // ---- Drawing

    // What the views look at, for the state that we have.
    look() {
        const { state, model } = this;
        this.profile = this.profiles[model.sideOf(state)];
        this.metric = this.profile.metrics[model.metricIndex(this.profile, state.metric)];
        this.comparison = null;
        this.labels = this.profile;
        this.tree = model.tree(state);
        if (state.view === "compare" && this.profiles.length > 1) {
            this.comparison = model.comparison(state);
            this.labels = this.comparison.labels;
            this.tree = this.comparison.tree;
        }
        this.found = state.search ? model.matches(this.labels, this.tree, state.search) : null;
        this.marks = this.found && this.found.marks;
    }

    draw() {
        if (this.base.some((profile) => !profile.metrics.length)) {
            this.main.replaceChildren();
            this.main.append(element("p", { class: "nothing", text: "Nothing was measured: the profile has no metric." }));
            return;
        }
        if (!this.views().some(([name]) => name === this.state.view))
            this.state.view = "flame";
        this.lookCloser();
        this.current?.close?.();
        this.current = this.picture = this.chosen = null;
        this.look();
        this.askFlat();
        this.main.replaceChildren();
        this.main.className = this.state.view;
        this.main.setAttribute("aria-label", VIEWS.find(([name]) => name === this.state.view)[1]);
        this.drawTabs();
        this.drawChoices();
        this.drawRefinements();
        this.drawSearch();
        this.drawNotes();
        this.showDetail(null);
        if (!this.tree.total[0] && !["quality", "compare", "timeline", "heatmap"].includes(this.state.view))
            this.main.append(element("p", { class: "nothing", text: "Nothing was measured in this selection." }));
        else
            this.current = VIEW_MAKERS[this.state.view](this);
        for (const id of ["save-svg", "save-png"])
            find(id).disabled = !this.picture;
        document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready || 0) + 1);
    }

    drawTabs() {
        find("tabs").replaceChildren(...this.views().map(([name, title]) => element("a", {
            text: title, href: `#${stateText({ ...this.state, view: name })}`, "aria-current": name === this.state.view ? "page" : undefined,
        })));
        find("tabs").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    // One of the selections above the views; it is not there where there is nothing to choose.
    choice(name, title, options, value) {
        if (options.length < 2 && !value)
            return null;
        const select = element("select", { onchange: () => this.go({ [name]: select.value, zoom: [] }) },
            ...options.map(([key, text]) => element("option", { value: key, text })));
        if (!options.some(([key]) => key === value))
            select.append(element("option", { value, text: visible(value) }));
        select.value = value;
        return element("label", { text: `${title} ` }, select);
    }

    drawChoices() {
        const { profile, state } = this, parts = [];
        if (this.profiles.length > 1 && state.view !== "compare")
            parts.push(this.choice("side", "profile", [["newer", "newer"], ["older", "older"]], state.side));
        parts.push(this.choice("metric", "metric", profile.metrics.map(({ name }, i) => [i ? name : "", visible(name)]), state.metric),
            this.choice("thread", "thread", this.threadOptions(), state.thread),
            this.choice("process", "process", this.processOptions(), state.process),
            this.choice("phase", "phase", [["", "all"], ...this.phaseOptions()], state.phase));
        find("choices").replaceChildren(...parts.filter(Boolean));
    }

    // By name where several have one, and each by its number; the heaviest if there are many.
    threadOptions() {
        const { profile } = this, metric = this.model.metricIndex(profile, this.state.metric);
        if (!this.threadWeights || this.threadWeights.of !== profile.values[metric])
            this.threadWeights = { of: profile.values[metric], list: this.weighThreads(metric) };
        const names = new Map();
        for (const [name] of profile.threads)
            names.set(name, (names.get(name) || 0) + 1);
        const several = [...names].filter(([, count]) => count > 1).slice(0, CHOICES_MAX)
            .map(([name, count]) => [name, `${visible(name)} (${countText(count)} threads)`]);
        const single = this.threadWeights.list.slice(0, CHOICES_MAX).map((thread) =>
            [String(profile.threads[thread][1]), `${visible(profile.threads[thread][0])} · ${profile.threads[thread][1]}`]);
        return profile.threads.length < 2 ? [] : [["", `all ${countText(profile.threads.length)}`], ...several, ...single];
    }

    weighThreads(metric) {
        const { profile } = this, weights = new Float64Array(profile.threads.length);
        for (let root = 0; root < profile.rootCount; root++)
            for (let i = profile.rootFirst[root]; i < profile.rootFirst[root + 1]; i++)
                weights[profile.rootThread[root]] += profile.values[metric][i];
        return [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
    }

    processOptions() {
        const { processes } = this.profile;
        return processes.length < 2 ? [] : [["", `all ${countText(processes.length)}`],
            ...processes.slice(0, CHOICES_MAX).map(({ name, pid }) => [String(pid), `${visible(name)} · ${pid}`])];
    }

    phaseOptions() {
        const { phases, rootPhase } = this.profile, names = [...new Set(phases)].map((name) => [name, visible(name)]);
        return rootPhase.includes(0xffffffff) && names.length ? [["(no phase)", "(no phase)"], ...names] : names;
    }

    colourChoice() {
        const select = element("select", { onchange: () => this.go({ colour: select.value }) },
            element("option", { value: "", text: "by module" }), element("option", { value: "function", text: "by function" }));
        select.value = this.state.colour === "function" ? "function" : "";
        return select;
    }

    drawRefinements() {
        const { refinements } = this.state, without = (i) => refinements.filter((_, k) => k !== i);
        const range = this.range && element("button", {
            class: "chip", "aria-label": "remove the range of time", onclick: () => this.go({ from: "", to: "", zoom: [] }),
        }, element("b", { text: "time" }), ` ${this.rangeText()} `, element("span", { text: "×", "aria-hidden": "true" }));
        find("refinements").replaceChildren(...[range].filter(Boolean), ...refinements.map(({ kind, pattern }, i) => element("button", {
            class: "chip", "aria-label": `remove ${REFINEMENTS[kind]} ${visible(pattern)}`, onclick: () => this.go({ refinements: without(i), zoom: [] }),
        }, element("b", { text: REFINEMENTS[kind] }), ` ${visible(pattern)} `, element("span", { text: "×", "aria-hidden": "true" }))));
    }

    rangeText() {
        const { from, to } = this.range, text = (us) => `${Number(secondsText(us))} s`;
        return from === null ? `up to ${text(to)}` : to === null ? `from ${text(from)}` : `${text(from)} to ${text(to)}`;
    }

    drawSearch() {
        const { found, tree } = this;
        if (document.activeElement !== this.search)
            this.search.value = this.state.search;
        find("matches").textContent = !found ? "" : !found.functions ? "no match"
            : `${shareText(found.value, tree.whole)} in ${plural(found.functions, "function")}`;
    }

    searchSoon() {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.go({ search: this.search.value }, this.state.search !== ""), 80);
    }

    drawNotes() {
        const bad = this.warnings(), note = this.cutNote(), filtered = this.tree.total[0] !== this.tree.whole;
        const { kind, period } = this.metric, samples = kind === "sampled" && period ? `, about ${countText(this.tree.whole / period)} samples` : "";
        const filteredText = filtered ? ` · after filtering ${amountText(this.metric.unit, this.tree.total[0])}, ${shareText(this.tree.total[0], this.tree.whole)}` : "";
        find("total").textContent = `${visible(this.metric.name)}: ${kind === "at_least" || kind === "at least" ? "at least " : ""}` +
            `${amountText(this.metric.unit, this.tree.whole)}${samples}${filteredText}`;
        find("total").title = visible(this.metric.about);
        find("cut").textContent = note;
        find("quality").textContent = bad.length ? `⚠ ${plural(bad.length, "warning")}` : "quality";
        find("quality").className = bad.length ? "bad" : "";
    }

    cutNote() {
        const { cut } = this.profile;
        return cut.leftOut ? `${countText(cut.leftOut)} of ${countText(cut.nodes)} contexts, each below ${cut.share.toPrecision(2)}%, are drawn together as “(smaller contexts)”.` : "";
    }

    // What is bad about the data, in a sentence each.
    warnings() {
        const profile = this.base[this.baseModel.sideOf(this.state)], metric = this.baseModel.metricIndex(profile, this.state.metric), found = [];
        const fact = (key) => Number(profile.fact(key, metric) ?? NaN), samples = fact("samples"), lost = fact("lost");
        if (lost / (samples + lost) > 0.01)
            found.push(`${countText(lost)} samples of ${countText(samples + lost)} were lost.`);
        const { kind, period, unit } = profile.metrics[metric], taken = profile.values[metric].reduce((sum, value) => sum + value, 0) / period;
        if (kind === "sampled" && unit === "ns" && period > 1 && taken < SAMPLES_ENOUGH)
            found.push(`Only about ${plural(taken, "sample")}: shares are rough. Run it longer, or sample faster (-F).`);
        if (fact("walks_complete") / fact("walks_total") < 0.95)
            found.push(`${(100 - 100 * fact("walks_complete") / fact("walks_total")).toFixed(1)}% of the stacks could not be walked to their end: outer callers are missing.`);
        if (fact("verify_differ") > NEVER_BAD)
            found.push(`${countText(fact("verify_differ"))} of ${countText(fact("verify_checked"))} samples that were verified differ.`);
        if (fact("threads_not_sampled") > NEVER_BAD)
            found.push(`${plural(fact("threads_not_sampled"), "thread")} were seen, but not measured.`);
        const gaps = Uint8Array.from(profile.labelKinds, (kind) => kind === Kind.GAP ? 1 : 0), tree = this.model.tree({ ...this.state, refinements: [] });
        let missing = 0;
        outermost(tree, gaps, (node) => {
            missing += tree.total[node];
        });
        if (missing > 0.05 * tree.whole)
            found.push(`Callers are missing for ${shareText(missing, tree.whole)} of the cost.`);
        return found;
    }

    // ---- What is pointed at

    hover(row) {
        this.showDetail(row || this.chosen);
    }

    choose(row) {
        this.chosen = row;
        this.showDetail(row);
    }

    showDetail(row) {
        if (!row) {
            this.detail.replaceChildren(element("span", { class: "hint", text: "Point at a function for its numbers; ? shows all keys." }));
            return;
        }
        const module = this.labels.module(row.label);
        const parts = [element("span", { class: "function", text: this.labels.name(row.label) }), element("span", { class: "module", text: module }),
            element("span", { class: "numbers", text: this.numbersText(row) })];
        const act = (text, key, action) => element("button", { text, title: `key ${key}`, onclick: action });
        if (row === this.chosen && this.labels.isCode(row.label) && !this.comparison)
            parts.push(element("span", { class: "actions" }, act("focus", "f", () => this.refineChosen("f")), act("hide", "h", () => this.refineChosen("h")),
                act("callers & callees", "b", () => this.showChosen("butterfly")), act("source", "o", () => this.showChosen("lines")),
                act("structure", "g", () => this.showChosen("structure")),
                act("copy stack", "y", () => this.copyStack())));
        this.detail.replaceChildren(...parts);
    }

    numbersText(row) {
        const scale = amountScale(this.metric.unit, this.tree.whole), { whole } = this.tree;
        const numbers = row.up ? `${scale(row.total)} (${shareText(row.total, whole)})`
            : `total ${scale(row.total)} (${shareText(row.total, whole)}) · self ${scale(row.self)} (${shareText(row.self, whole)})`;
        return numbers + this.changeText(row, scale);
    }

    changeText(row, scale) {
        if (!this.comparison)
            return "";
        const { before, change, what } = row.nodes.length ? this.comparison.ofRow(row) : row;
        return ` · before ${scale(before)} · ${change < 0 ? "−" : "+"}${scale(Math.abs(change))}, ${what === "same" ? "within noise" : what}`;
    }

    // ---- What can be done

    zoom(row) {
        this.go({ zoom: row.path() });
    }

    zoomOut() {
        this.go({ zoom: this.state.zoom.slice(0, -1) });
    }

    escape() {
        if (document.activeElement === this.search)
            this.search.blur();
        if (this.state.zoom.length)
            this.go({ zoom: [] });
        else if (this.range)
            this.go({ from: "", to: "" });
        else if (this.state.search) {
            this.search.value = "";
            this.go({ search: "" });
        }
    }

    refineChosen(kind) {
        const { chosen } = this;
        if (!chosen || this.comparison || !this.labels.isCode(chosen.label))
            return;
        const module = this.labels.module(chosen.label), pattern = kind === "m" ? module : exactly(this.labels.rawNames[chosen.label]);
        this.go({ refinements: [...this.state.refinements, { kind, pattern }], zoom: [] });
    }

    toggleRecursion() {
        const others = this.state.refinements.filter(({ kind }) => kind !== "r");
        const had = others.length !== this.state.refinements.length;
        this.go({ refinements: had ? others : [...others, { kind: "r", pattern: "" }], zoom: [] });
    }

    showChosen(view) {
        if (this.chosen && this.labels.isCode(this.chosen.label))
            this.go({ view, function: this.labels.fullName(this.chosen.label) });
    }

    nextMetric() {
        const { metrics } = this.profile, next = (this.model.metricIndex(this.profile, this.state.metric) + 1) % metrics.length;
        this.go({ metric: next ? metrics[next].name : "", zoom: [] });
    }

    // The functions that match, one after the other, in their contexts.
    nextMatch(step) {
        if (!this.marks || !this.found.functions)
            return;
        const labels = [...this.marks.keys()].filter((label) => this.marks[label]);
        const at = labels.findIndex((label) => this.labels.fullName(label) === this.state.function);
        const next = labels[(at + step + labels.length) % labels.length];
        this.go({ view: "butterfly", function: this.labels.fullName(next) });
    }

    stackText(row) {
        const labels = row.stack ? row.stack() : [row.label];
        return labels.map((label) => this.labels.fullName(label)).join("\n");
    }

    async copyStack() {
        if (!this.chosen)
            return;
        const text = this.stackText(this.chosen);
        try {
            await navigator.clipboard.writeText(text);
        } catch {
            // Pages from files may not use the clipboard: the old way.
            const area = element("textarea", { "aria-hidden": "true" });
            area.value = text;
            document.body.append(area);
            area.select();
            document.execCommand("copy");
            area.remove();
        }
        this.say("The stack is copied.");
    }

    async savePicture(kind) {
        if (!this.picture)
            return;
        const title = `${document.title}: ${visible(this.metric.name)}`;
        const svg = this.picture.svg ? this.picture.svg(title) : flameSvg({ ...this.picture, title }, 1200, this.isDark());
        const name = fileOf(this.profile.file).replace(/\.ctp$/, "");
        saveAs(kind === "svg" ? new Blob([svg], { type: "image/svg+xml" }) : await svgToPng(svg), `${name}.${kind}`);
        this.say(`${name}.${kind} is saved.`);
    }

    say(text, most = 3000) {
        find("said").textContent = text;
        clearTimeout(this.saying);
        this.saying = setTimeout(() => {
            find("said").textContent = "";
        }, most);
    }

    showHelp() {
        find("sheet").replaceChildren(helpSheet(this));
        this.help.showModal();
    }
}

const source = new Source();
source.profiles().then((profiles) => new App(profiles, source).start(), (error) => {
    find("main").append(element("p", { class: "nothing", text: `The profile cannot be read: ${error.message}` }));
});
