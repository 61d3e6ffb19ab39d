#include "query/lines.h"

#include <string.h>

static uint32_t row_for(struct line_rows *rows, uint64_t place)
{
    uint32_t file = (uint32_t)(place >> 32), line = (uint32_t)place;
    for (uint32_t i = 0; i < rows->items.count; i++)
        if (rows->items.items[i].file == file && rows->items.items[i].line == line)
            return i;
    vec_push(&rows->items, (struct line_row){.file = file, .line = line});
    return (uint32_t)rows->items.count - 1;
}

static struct line_rows sum_up(const struct view *view, const bool *wanted)
{
    const struct tree *tree = &view->tree;
    const struct labels *labels = &view->labels;
    struct line_rows rows = {0};
    rows.of_label = must_calloc(labels->items.count + 1, sizeof *rows.of_label);
    for (uint32_t i = 0; i < labels->items.count; i++)
        if (wanted[i])
            rows.of_label[i] = row_for(&rows, labels->items.items[i].place) + 1;
    for (uint32_t i = 1, outside = 0; i < tree->count; i++) {
        uint32_t index = rows.of_label[tree->nodes[i].label];
        if (!index)
            continue;
        struct line_row *row = &rows.items.items[index - 1];
        row->self += tree->nodes[i].self;
        rows.self += tree->nodes[i].self;
        if (i >= row->end) {
            row->total += tree->totals[i];
            row->end = i + tree->sizes[i];
        }
        if (i >= outside) {
            rows.total += tree->totals[i];
            outside = i + tree->sizes[i];
        }
    }
    return rows;
}

struct ordering {
    const struct line_rows *rows;
    const struct labels *labels;
};

static uint64_t file_self(const struct line_rows *rows, uint32_t file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < rows->items.count; i++)
        sum += rows->items.items[i].file == file ? rows->items.items[i].total : 0;
    return sum;
}

/* The file with the greatest cost first, then by line. */
static int compare(const void *a, const void *b, void *context)
{
    const struct ordering *o = context;
    const struct line_row *x = a, *y = b;
    if (x->file != y->file) {
        uint64_t first = file_self(o->rows, x->file), second = file_self(o->rows, y->file);
        if (first != second)
            return first > second ? -1 : 1;
        return strcmp(strings_get(&o->labels->texts, x->file),
                      strings_get(&o->labels->texts, y->file));
    }
    return (x->line > y->line) - (x->line < y->line);
}

struct line_rows line_rows(const struct view *view, const bool *wanted)
{
    struct line_rows rows = sum_up(view, wanted);
    struct ordering ordering = {&rows, &view->labels};
    if (rows.items.count)
        qsort_r(rows.items.items, rows.items.count, sizeof *rows.items.items, compare, &ordering);
    free(rows.of_label);
    rows.of_label = NULL;
    return rows;
}

void line_rows_free(struct line_rows *rows)
{
    vec_free(&rows->items);
}
