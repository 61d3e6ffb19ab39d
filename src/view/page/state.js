// What is looked at, and how: kept in the address, so that a view can be sent to a colleague, and so that back
// and forward work.

export const VIEWS = [
    ["flame", "Flame graph"],
    ["topdown", "Top-down"],
    ["bottomup", "Bottom-up"],
    ["functions", "Functions"],
    ["butterfly", "Callers & callees"],
    ["contexts", "Hot contexts"],
    ["kctx", "Why hot"],
    ["lines", "Source"],
    ["structure", "Structure"],
    ["timeline", "Timeline"],
    ["heatmap", "Heat map"],
    ["compare", "Compare"],
    ["quality", "Quality"],
];

const DEFAULTS = {
    view: "flame",
    metric: "",
    thread: "",
    process: "",
    phase: "",
    search: "",
    from: "",      // seconds: only what was sampled then
    to: "",
    side: "newer", // of two profiles, whose the views are
    function: "",  // "name [module]"
    colour: "",
    sort: "",
    up: false,     // the flame graph begins with what runs, and goes up to callers
    timed: false,  // the flame graph is in order of time, and not merged
    inlined: true,
    code: false,   // instructions instead of source lines
};
const PATH_MAX = 300; // labels of a zoom that an address may have

export function freshState() {
    return { ...DEFAULTS, refinements: [], zoom: [] };
}

export function parseState(hash) {
    const state = freshState(), words = new URLSearchParams(hash.replace(/^#/, ""));
    for (const [key, value] of words) {
        if (key === "refine" && /^[fhsmr]:/.test(value))
            state.refinements.push({ kind: value[0], pattern: value.slice(2) });
        else if (key === "zoom")
            state.zoom = value.split(".").map((word) => parseInt(word, 36)).filter((label) => label >= 0);
        else if (Object.hasOwn(DEFAULTS, key))
            state[key] = typeof DEFAULTS[key] === "boolean" ? value === "1" : value;
    }
    for (const key of ["from", "to"])
        if (!(Number(state[key]) >= 0))
            state[key] = "";
    if (!VIEWS.some(([name]) => name === state.view))
        state.view = DEFAULTS.view;
    return state;
}

export function stateText(state) {
    const words = new URLSearchParams();
    for (const [key, usual] of Object.entries(DEFAULTS))
        if (state[key] !== usual)
            words.append(key, typeof usual === "boolean" ? (state[key] ? "1" : "0") : state[key]);
    for (const { kind, pattern } of state.refinements)
        words.append("refine", `${kind}:${pattern}`);
    if (state.zoom.length && state.zoom.length <= PATH_MAX)
        words.append("zoom", state.zoom.map((label) => label.toString(36)).join("."));
    return words.toString();
}
