#include "query/flat.h"

struct flat_row *flat_rows(const struct view *view, uint32_t *count)
{
    const struct tree *tree = &view->tree;
    size_t labels = view->labels.items.count;
    struct flat_row *rows = must_calloc(labels + 1, sizeof *rows);
    uint32_t *ends = must_calloc(labels + 1, sizeof *ends);
    for (uint32_t i = 1; i < tree->count; i++) {
        struct flat_row *row = &rows[tree->nodes[i].label];
        row->contexts++;
        row->self += tree->nodes[i].self;
        if (!view_is_recursive(tree, ends, i))
            row->total += tree->totals[i];
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
