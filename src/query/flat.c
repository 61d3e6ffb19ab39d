#include "query/flat.h"

static void add_outermost(const struct view *view, uint32_t node, struct flat_row *row)
{
    row->total += view->tree.totals[node];
    if (view->counts && view->count_kind->is_inclusive)
        row->count += view->counts[node];
}

struct flat_row *flat_rows_through(const struct view *view, const bool *wraps, uint32_t *count)
{
    const struct tree *tree = &view->tree;
    size_t labels = view->labels.items.count;
    struct flat_row *rows = must_calloc(labels + 1, sizeof *rows);
    uint32_t *ends = must_calloc(labels + 1, sizeof *ends);
    for (uint32_t i = 1; i < tree->count; i++) {
        uint32_t caller = i;
        while (wraps && wraps[tree->nodes[caller].label] && tree->nodes[caller].parent != 0)
            caller = tree->nodes[caller].parent;
        rows[tree->nodes[caller].label].self += tree->nodes[i].self;
        struct flat_row *row = &rows[tree->nodes[i].label];
        row->contexts += caller == i;
        /* Counts that include what is called are those of the outermost, as the total is. */
        if (view->counts && !view->count_kind->is_inclusive)
            row->count += view->counts[i];
        if (!view_is_recursive(tree, ends, i))
            add_outermost(view, i, row);
    }
    free(ends);
    *count = 0;
    for (uint32_t i = 0; i < labels; i++) {
        if (rows[i].contexts == 0)
            continue;
        rows[*count] = rows[i];
        rows[(*count)++].label = i;
    }
    return rows;
}

struct flat_row *flat_rows(const struct view *view, uint32_t *count)
{
    return flat_rows_through(view, NULL, count);
}
