// Tables and tree tables: only the rows that are in sight are in the document, so that a million would do.

const TABLE_ROW_HEIGHT = 25, SPARE_ROWS = 8;
export const NARROW = "(max-width: 700px)"; // as in the style

export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        if (key.startsWith("on"))
            made.addEventListener(key.slice(2), value);
        else if (key === "text")
            made.textContent = value;
        else if (value !== false && value !== undefined)
            made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
}

// The bar behind a share.
export function bar(share) {
    const made = element("span", { class: "bar", "aria-hidden": "true" });
    made.style.width = `${Math.max(Math.min(share, 100), 0)}%`;
    return made;
}

export class Table {
    /*
     * `columns`: {title, text(item) or cell(item), kind: "number" | "share" | "name" | "text", share(item), sort,
     * onlyWide: not in a narrow window}.
     * `hooks`: choose(item), open(item): Enter or a double click, sort(key), children(item) for a tree, and
     * marked(item) for what a search has found.
     */
    constructor(columns, hooks, title) {
        const isNarrow = matchMedia(NARROW).matches, share = isNarrow ? "5.4em" : "7.5em";
        this.columns = isNarrow ? columns.filter((column) => !column.onlyWide) : columns;
        this.hooks = hooks;
        this.items = [];
        this.isTree = Boolean(hooks.children);
        this.opened = new Set();
        this.at = -1;
        this.body = element("div", { class: "rows" });
        this.head = element("div", { class: "head", role: "row" });
        this.box = element("div", {
            class: "table", role: this.isTree ? "treegrid" : "grid", tabindex: "0", "aria-label": title,
            onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
        }, this.head, this.body);
        this.box.style.setProperty("--columns", this.columns.map((column) => column.width ||
            (column.kind === "name" || column.kind === "text" ? `minmax(${isNarrow ? 10 : 16}em, 1fr)` : share)).join(" "));
        this.resizes = new ResizeObserver(() => this.draw());
        this.resizes.observe(this.box);
    }

    drawHead() {
        this.head.replaceChildren(...this.columns.map((column) => {
            const sorted = column.sort && column.sort === this.sort;
            const content = column.sort ? element("button", {
                text: column.title + (sorted ? " ▾" : ""), onclick: () => this.hooks.sort(column.sort),
            }) : element("span", { text: column.title });
            return element("div", {
                role: "columnheader", class: column.kind, "aria-sort": sorted ? "descending" : undefined,
            }, content);
        }));
    }

    // The tops of a tree, or all items.
    show(items, sort = "", note = "") {
        this.sort = sort;
        this.drawHead();
        this.items = this.isTree ? items.map((item) => ({ item, level: 1 })) : items.map((item) => ({ item, level: 0 }));
        this.note = note;
        this.draw();
    }

    open(at) {
        const { item, level } = this.items[at];
        const children = this.hooks.children(item).map((child) => ({ item: child, level: level + 1 }));
        this.opened.add(item);
        // Not by spread: there may be more children than arguments of a call.
        this.items = this.items.slice(0, at + 1).concat(children, this.items.slice(at + 1));
        return children.length;
    }

    shut(at) {
        const { level } = this.items[at];
        let end = at + 1;
        for (; end < this.items.length && this.items[end].level > level; end++)
            this.opened.delete(this.items[end].item);
        this.opened.delete(this.items[at].item);
        this.items.splice(at + 1, end - at - 1);
    }

    toggle(at) {
        if (this.opened.has(this.items[at].item))
            this.shut(at);
        else
            this.open(at);
        this.draw();
    }

    // Opens the way to an item of a tree, which knows its parents, and chooses it.
    reveal(item) {
        const way = [item];
        while (way[0].parent && !this.items.some((one) => one.item === way[0]))
            way.unshift(way[0].parent);
        const find = (wanted) => this.items.findIndex((one) => one.item === wanted);
        for (const step of way)
            if (find(step) >= 0 && !this.opened.has(step) && this.hooks.hasChildren(step))
                this.open(find(step));
        this.draw();
        this.choose(find(item));
    }

    // Opens the heaviest branch as long as it has most of what its parent has.
    openHotPath() {
        for (let at = 0, least = 0; at < this.items.length && this.items.length < 400; at++) {
            const { item } = this.items[at];
            if (item.total < least || !this.hooks.hasChildren(item) || !this.open(at))
                break;
            least = item.total / 2;
        }
        this.draw();
    }

    draw() {
        const height = this.box.clientHeight, count = this.items.length;
        if (!height)
            return;
        const first = Math.max(Math.floor(this.box.scrollTop / TABLE_ROW_HEIGHT) - SPARE_ROWS, 0);
        const last = Math.min(first + Math.ceil(height / TABLE_ROW_HEIGHT) + 2 * SPARE_ROWS, count);
        this.box.setAttribute("aria-rowcount", count + 1);
        const rows = [];
        for (let i = first; i < last; i++)
            rows.push(this.drawRow(i));
        if (last === count && this.note)
            rows.push(element("div", { class: "note", text: this.note }));
        this.body.replaceChildren(...rows);
        this.body.style.paddingTop = `${first * TABLE_ROW_HEIGHT}px`;
        this.body.style.paddingBottom = `${(count - last) * TABLE_ROW_HEIGHT}px`;
        this.box.setAttribute("aria-activedescendant", this.at >= first && this.at < last ? `row-${this.at}` : "");
    }

    drawRow(at) {
        const { item, level } = this.items[at], marked = this.hooks.marked?.(item);
        const parts = this.columns.map((column) => this.drawCell(column, at));
        return element("div", {
            role: "row", id: `row-${at}`, class: `row${at === this.at ? " chosen" : ""}${marked ? " marked" : ""}`,
            "aria-rowindex": at + 2, "aria-level": this.isTree ? level : undefined,
            "aria-selected": at === this.at ? "true" : undefined,
            "aria-expanded": this.isTree && this.hooks.hasChildren(item) ? String(this.opened.has(item)) : undefined,
            onclick: () => this.choose(at), ondblclick: () => this.hooks.open?.(item),
        }, ...parts);
    }

    drawCell(column, at) {
        const { item, level } = this.items[at], cell = element("div", { role: "gridcell", class: column.kind });
        if (column.share)
            cell.append(bar(column.share(item)));
        if (column.kind === "name" && this.isTree) {
            const has = this.hooks.hasChildren(item);
            cell.style.paddingInlineStart = `${Math.min(level - 1, 40) * 14 + 4}px`;
            cell.append(element("button", {
                class: "twisty", tabindex: "-1", "aria-hidden": "true", text: !has ? "" : this.opened.has(item) ? "▾" : "▸",
                onclick: (event) => {
                    event.stopPropagation();
                    if (has)
                        this.toggle(at);
                },
            }));
        }
        const content = column.cell ? column.cell(item) : element("span", { text: column.text(item) });
        cell.append(content);
        return cell;
    }

    choose(at) {
        this.at = Math.max(Math.min(at, this.items.length - 1), 0);
        const y = this.at * TABLE_ROW_HEIGHT, head = this.head.offsetHeight;
        if (y < this.box.scrollTop)
            this.box.scrollTop = y;
        else if (y + TABLE_ROW_HEIGHT > this.box.scrollTop + this.box.clientHeight - head)
            this.box.scrollTop = y + TABLE_ROW_HEIGHT - this.box.clientHeight + head;
        this.draw();
        if (this.items[this.at])
            this.hooks.choose(this.items[this.at].item);
    }

    parentOf(at) {
        let parent = at - 1;
        while (parent >= 0 && this.items[parent].level >= this.items[at].level)
            parent--;
        return parent;
    }

    key(event) {
        if (event.ctrlKey || event.altKey || event.metaKey || !this.items.length)
            return;
        const page = Math.max(Math.floor(this.box.clientHeight / TABLE_ROW_HEIGHT) - 2, 1), { at } = this;
        const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.items.length, End: this.items.length };
        const item = this.items[at]?.item, isOpen = this.opened.has(item);
        if (event.key in steps)
            this.choose(at < 0 ? 0 : at + steps[event.key]);
        else if (event.key === "ArrowRight" && this.isTree && item)
            isOpen ? this.choose(at + 1) : this.hooks.hasChildren(item) && this.toggle(at);
        else if (event.key === "ArrowLeft" && this.isTree && item)
            isOpen ? this.toggle(at) : this.parentOf(at) >= 0 && this.choose(this.parentOf(at));
        else if (event.key === "Enter" && item)
            this.isTree ? this.hooks.hasChildren(item) && this.toggle(at) : this.hooks.open?.(item);
        else
            return;
        event.preventDefault();
        event.stopPropagation();
    }

    close() {
        this.resizes.disconnect();
    }
}
