#include "browse/folding.h"

#include <string.h>

enum {
    CHAIN_MOST = 256,   /* rows that are opened because each is the only one */
    SHOWN_MOST = 20000, /* rows that are opened by one key */
};

const struct unfold_row *rows_at(const struct rows *rows, size_t index)
{
    return &rows->tree.rows.items[rows->shown.items[index].row];
}

bool rows_has_more(struct rows *rows, size_t index)
{
    unfold_row(&rows->tree, rows->shown.items[index].row);
    return rows_at(rows, index)->children != 0;
}

static void open_one(struct rows *rows, size_t index)
{
    struct shown_row *at = &rows->shown.items[index];
    if (at->is_open || !rows_has_more(rows, index))
        return;
    const struct unfold_row *row = rows_at(rows, index);
    bool steps_on = row->children > 1 || (row->depth == 0 && rows->tree.tops > 1);
    uint32_t steps = at->steps + steps_on, first = row->first, children = row->children;
    at->is_open = true;
    vec_reserve(&rows->shown, rows->shown.count + children);
    struct shown_row *behind = rows->shown.items + index + 1;
    memmove(behind + children, behind, (rows->shown.count - index - 1) * sizeof *behind);
    rows->shown.count += children;
    for (uint32_t i = 0; i < children; i++)
        behind[i] = (struct shown_row){.row = first + i, .steps = steps};
    if (rows->selected > index)
        rows->selected += children;
}

void rows_open(struct rows *rows, size_t index)
{
    for (int i = 0; i < CHAIN_MOST; i++) {
        open_one(rows, index);
        if (rows_at(rows, index)->children != 1)
            return;
        index++;
    }
}

/* The first row behind this one that is not below it. */
static size_t end_of(const struct rows *rows, size_t index)
{
    uint32_t depth = rows_at(rows, index)->depth;
    size_t end = index + 1;
    while (end < rows->shown.count && rows_at(rows, end)->depth > depth)
        end++;
    return end;
}

void rows_fold(struct rows *rows, size_t index)
{
    size_t end = end_of(rows, index), gone = end - index - 1;
    memmove(rows->shown.items + index + 1, rows->shown.items + end,
            (rows->shown.count - end) * sizeof *rows->shown.items);
    rows->shown.count -= gone;
    rows->shown.items[index].is_open = false;
    if (rows->selected >= end)
        rows->selected -= gone;
    else if (rows->selected > index)
        rows->selected = index;
}

bool rows_open_below(struct rows *rows, size_t index, uint64_t min_total)
{
    uint32_t depth = rows_at(rows, index)->depth;
    for (size_t i = index; i < rows->shown.count; i++) {
        if (i > index && rows_at(rows, i)->depth <= depth)
            break;
        if (rows_at(rows, i)->total < min_total)
            continue;
        if (rows->shown.count > SHOWN_MOST)
            return false;
        open_one(rows, i);
    }
    return true;
}

bool rows_open_all(struct rows *rows, uint64_t min_total)
{
    for (size_t i = 0; i < rows->shown.count; i++) {
        if (rows_at(rows, i)->total < min_total)
            continue;
        if (rows->shown.count > SHOWN_MOST)
            return false;
        open_one(rows, i);
    }
    return true;
}

void rows_fold_all(struct rows *rows)
{
    size_t kept = 0, selected = 0;
    for (size_t i = 0; i < rows->shown.count; i++) {
        if (rows_at(rows, i)->depth != 0)
            continue;
        if (i <= rows->selected)
            selected = kept;
        rows->shown.items[kept] = rows->shown.items[i];
        rows->shown.items[kept++].is_open = false;
    }
    rows->shown.count = kept;
    rows->selected = selected;
}

size_t rows_parent(const struct rows *rows, size_t index)
{
    uint32_t parent = rows_at(rows, index)->parent;
    if (parent == TREE_NONE)
        return index;
    while (rows->shown.items[index].row != parent)
        index--;
    return index;
}

/* The row of this label among those in [from, end) at this depth, or the end. */
static size_t find_label(const struct rows *rows, size_t from, size_t end, uint32_t depth,
                         uint32_t label)
{
    while (from < end &&
           (rows_at(rows, from)->depth != depth || rows_at(rows, from)->label != label))
        from++;
    return from;
}

bool rows_reveal(struct rows *rows, uint32_t node)
{
    const struct tree *tree = &rows->tree.view->tree;
    VEC(uint32_t) path = {0};
    for (uint32_t at = node; at != 0; at = tree->nodes[at].parent)
        vec_push(&path, tree->nodes[at].label);
    /* Where the list does not begin at the outermost frame, it begins at one of those below it. */
    size_t left = path.count, found = rows->shown.count;
    while (left && found == rows->shown.count)
        found = find_label(rows, 0, rows->shown.count, 0, path.items[--left]);
    while (left && found < rows->shown.count) {
        open_one(rows, found);
        size_t end = end_of(rows, found);
        found =
            find_label(rows, found + 1, end, rows_at(rows, found)->depth + 1, path.items[--left]);
        if (found == end)
            found = rows->shown.count;
    }
    vec_free(&path);
    if (found >= rows->shown.count)
        return false;
    rows->selected = found;
    return true;
}

void rows_move(struct rows *rows, long by)
{
    long last = (long)rows->shown.count - 1, to = (long)rows->selected + by;
    rows->selected = last < 0 ? 0 : to < 0 ? 0 : to > last ? (size_t)last : (size_t)to;
}

void rows_scroll(struct rows *rows, size_t lines)
{
    if (rows->selected < rows->top)
        rows->top = rows->selected;
    if (lines && rows->selected >= rows->top + lines)
        rows->top = rows->selected - lines + 1;
    if (rows->shown.count <= lines)
        rows->top = 0;
    else if (rows->top + lines > rows->shown.count)
        rows->top = rows->shown.count - lines;
}

static int by_self(const void *a, const void *b, void *context)
{
    const struct rows *rows = context;
    const struct shown_row *left = a, *right = b;
    uint64_t x = rows->tree.rows.items[left->row].self, y = rows->tree.rows.items[right->row].self;
    if (x != y)
        return x > y ? -1 : 1;
    return (left->row > right->row) - (left->row < right->row);
}

void rows_begin(const struct view *view, enum unfold_kind kind, const struct unfold_starts *starts,
                enum rows_order order, struct rows *out)
{
    *out = (struct rows){0};
    unfold_begin(view, kind, starts, &out->tree);
    for (uint32_t i = 0; i < out->tree.tops; i++)
        vec_push(&out->shown, (struct shown_row){.row = i});
    if (order == ROWS_BY_SELF && out->shown.count)
        qsort_r(out->shown.items, out->shown.count, sizeof *out->shown.items, by_self, out);
    if (out->shown.count == 1)
        rows_open(out, 0);
}

void rows_end(struct rows *rows)
{
    unfold_end(&rows->tree);
    vec_free(&rows->shown);
}
