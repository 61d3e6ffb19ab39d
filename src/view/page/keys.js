// The keyboard: every key in one table, which is also the sheet that `?` shows.
import { element } from "./table.js";

// [key, what it does, action]; a key is as KeyboardEvent names it.
export function keyTable(app) {
    const views = app.views().map(([name, title], i) => ["1234567890qwz"[i], title, () => app.go({ view: name })]);
    return [
        ...views,
        ["/", "search", () => app.search.focus()],
        ["n", "next function that matches", () => app.nextMatch(1)],
        ["N", "previous function that matches", () => app.nextMatch(-1)],
        ["Escape", "zoom out; then all of the time again; then leave the search", () => app.escape()],
        ["Backspace", "zoom out by one frame", () => app.zoomOut()],
        ["v", "turn the flame graph: callees or callers", () => app.go({ view: "flame", up: !app.state.up, timed: false, zoom: [] })],
        ["d", "flame graph in order of time, or merged", () => app.go({ view: "flame", up: false, timed: !app.state.timed, zoom: [] })],
        ["f", "focus: only contexts with the chosen function", () => app.refineChosen("f")],
        ["h", "hide contexts with the chosen function", () => app.refineChosen("h")],
        ["s", "show from the chosen function on", () => app.refineChosen("s")],
        ["l", "fold libraries: only the chosen function's module", () => app.refineChosen("m")],
        ["r", "fold recursion", () => app.toggleRecursion()],
        ["i", "inlined functions apart, or not", () => app.go({ inlined: !app.state.inlined, zoom: [] })],
        ["u", "all of the time again", () => app.go({ from: "", to: "", zoom: [] })],
        ["x", "drop the last refinement", () => app.go({ refinements: app.state.refinements.slice(0, -1), zoom: [] })],
        ["b", "callers and callees of the chosen function", () => app.showChosen("butterfly")],
        ["o", "source of the chosen function", () => app.showChosen("lines")],
        ["g", "where the chosen function is in the structure", () => app.showChosen("structure")],
        ["a", "instructions or source", () => app.go({ view: "lines", code: !app.state.code })],
        ["y", "copy the stack", () => app.copyStack()],
        ["m", "next metric", () => app.nextMetric()],
        ["c", "colour by module or by function", () => app.go({ colour: app.state.colour === "function" ? "" : "function" })],
        ["t", "light or dark", () => app.turnTheme()],
        ["e", "save the picture as SVG", () => app.savePicture("svg")],
        ["p", "save the picture as PNG", () => app.savePicture("png")],
        ["?", "this sheet", () => app.help.open ? app.help.close() : app.showHelp()],
    ];
}

const KEYS_OF_VIEWS = [["←→↑↓", "move between frames or rows; open and close rows"], ["Enter", "zoom into a frame; open a row"],
    ["Tab", "to the next part of the page"]];

export function helpSheet(app) {
    const row = ([key, text]) => element("tr", {}, element("td", {}, element("kbd", { text: key })), element("td", { text }));
    const views = app.views().length, keys = keyTable(app).slice(views), half = Math.ceil((keys.length + KEYS_OF_VIEWS.length) / 2);
    const columns = [keyTable(app).slice(0, views), keys.slice(0, half), keys.slice(half).concat(KEYS_OF_VIEWS)];
    return element("div", { class: "sheet" }, ...columns.map((column) => element("table", {}, ...column.map(row))));
}

export function listenToKeys(app) {
    document.addEventListener("keydown", (event) => {
        const typing = event.target.matches("input, select, textarea");
        if (event.ctrlKey || event.altKey || event.metaKey || (typing && event.key !== "Escape"))
            return;
        const found = keyTable(app).find(([key]) => key === event.key);
        if (!found || (app.help.open && event.key === "Escape"))
            return;
        event.preventDefault();
        found[2]();
    });
}
