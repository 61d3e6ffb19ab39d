// Numbers and names for people, as `calltrail report` writes them.

const SCALES = [
    ["ns", 1e8, 1e9, 3, "s"],
    ["ns", 1e5, 1e6, 3, "ms"],
    ["ns", 1e3, 1e3, 3, "µs"],
    ["bytes", 1e9, 1e9, 3, "GB"],
    ["bytes", 1e6, 1e6, 3, "MB"],
    ["bytes", 1e4, 1e3, 1, "kB"],
];

export function countText(value) {
    return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

// One scale for a column, chosen by its greatest value, so that eyes can compare.
export function amountScale(unit, greatest) {
    const scale = SCALES.find(([of, from]) => of === unit && greatest >= from);
    if (!scale)
        return (value) => `${countText(value)} ${unit.slice(0, 12)}`;
    const [, , divisor, decimals, shown] = scale;
    return (value) => `${(value / divisor).toFixed(decimals)} ${shown}`;
}

export function amountText(unit, value) {
    return amountScale(unit, Math.abs(value))(value);
}

export function shareOf(part, whole) {
    return whole ? 100 * (part / whole) : 0;
}

export function shareText(part, whole) {
    const share = shareOf(part, whole);
    return share > 0 && share < 0.05 ? "<0.1%" : `${share.toFixed(1)}%`;
}

export function plural(count, noun) {
    return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// Names come from the program that was measured. As text nothing in them can run; but controls and marks that
// turn the direction of writing could make one name look like another, so they are shown as boxes.
const INVISIBLE = new RegExp("[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff]", "g");

export function visible(name) {
    return name.replace(INVISIBLE, "\u25a1");
}

// The middle of what is too long says least.
export function shorten(text, most) {
    if (text.length <= most)
        return text;
    const head = Math.ceil((most - 1) * 0.6);
    return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}

export function fileOf(path) {
    return path.slice(path.lastIndexOf("/") + 1) || path;
}
