// Colours that colour-blind people can tell apart: the hues of Okabe and Ito, softened so that text is readable
// on each. The heaviest modules come first and get hues of their own.

// Hue, saturation in light and dark.
const HUES = [[33, 88], [202, 70], [164, 48], [52, 80], [326, 42], [220, 46], [14, 74]];
const GREY = [0, 0];

function hash(text) {
    let h = 2166136261;
    for (let i = 0; i < text.length; i++)
        h = Math.imul(h ^ text.charCodeAt(i), 16777619);
    return h >>> 0;
}

function shade([hue, saturation], vary, dark) {
    const lightness = dark ? 30 + vary * 9 : 76 + vary * 10;
    return `hsl(${hue} ${dark ? saturation * 0.62 : saturation}% ${lightness}%)`;
}

// A function from labels to colours, by "module" or "function".
export function palette(profile, tree, mode, dark) {
    const hues = new Map(), weights = new Map(), made = new Map(), self = new Float64Array(profile.labelCount);
    for (let i = 1; i < tree.count; i++)
        self[tree.label[i]] += tree.self[i];
    self.forEach((value, label) => {
        const module = profile.module(label);
        if (module)
            weights.set(module, (weights.get(module) || 0) + value);
    });
    [...weights].sort((a, b) => b[1] - a[1]).forEach(([module], i) => hues.set(module, HUES[i % HUES.length]));
    const colourOf = (label) => {
        const module = profile.module(label), seed = hash(profile.name(label)), vary = (seed >>> 8 & 255) / 255;
        if (!profile.isCode(label))
            return shade(GREY, 0.4, dark);
        return shade(mode === "function" ? HUES[seed % HUES.length] : hues.get(module) || GREY, vary, dark);
    };
    return {
        of: (label) => {
            if (!made.has(label))
                made.set(label, colourOf(label));
            return made.get(label);
        },
        legend: mode === "function" ? [] : [...hues].slice(0, HUES.length).map(([module, hue]) =>
            ({ text: module || "(no module)", colour: shade(hue, 0.4, dark) })),
    };
}

// Orange is more, blue is less, grey is noise; the deeper, the more of the whole.
export function changeColour(comparison, row, dark) {
    const { change, changed, before, after } = comparison.ofRow(row);
    if (!changed)
        return dark ? "hsl(0 0% 30%)" : "hsl(0 0% 87%)";
    const relative = Math.min(Math.abs(change) / Math.max(before, after, 1), 1);
    const depth = 0.25 + 0.75 * Math.sqrt(relative), hue = change > 0 ? 24 : 208;
    return dark ? `hsl(${hue} ${55 + 20 * depth}% ${30 + depth * 14}%)`
        : `hsl(${hue} ${70 + 20 * depth}% ${88 - depth * 26}%)`;
}
