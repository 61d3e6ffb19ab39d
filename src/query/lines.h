/*
 * What the lines of a function cost: each its own, and with all that was called from it.
 *
 * The view has a label for every line (LABEL_BY_LINE). A line that is on a path twice, by
 * recursion, is counted once.
 */
#ifndef QUERY_LINES_H
#define QUERY_LINES_H

#include "query/view.h"

struct line_row {
    uint32_t file; /* in the texts of the labels */
    uint32_t line; /* 0: not known */
    uint64_t self, total;
    uint32_t end; /* of the subtree that was counted last */
};

struct line_rows {
    VEC(struct line_row) items; /* the file with the greatest cost first, then by line */
    uint32_t *of_label;         /* row + 1, while they are summed up */
    uint64_t self, total;       /* of the function */
};

/* Of the functions with wanted[label]. */
struct line_rows line_rows(const struct view *view, const bool *wanted);
void line_rows_free(struct line_rows *rows);

#endif
