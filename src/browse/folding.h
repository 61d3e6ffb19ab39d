/*
 * The rows of a list that can be folded: which are there, which is selected.
 */
#ifndef BROWSE_FOLDING_H
#define BROWSE_FOLDING_H

#include "query/unfold.h"

struct shown_row {
    uint32_t row;   /* of the unfolding */
    uint32_t steps; /* to the right: a sole child has its parent's */
    bool is_open;
};

struct rows {
    struct unfolding tree;
    VEC(struct shown_row) shown;
    size_t selected;
    size_t top; /* the first that is on the screen */
};

enum rows_order { ROWS_BY_TOTAL, ROWS_BY_SELF };

/* Begins with the rows at the top, and opened as far as there is only one. */
void rows_begin(const struct view *view, enum unfold_kind kind, const struct unfold_starts *starts,
                enum rows_order order, struct rows *out);
void rows_end(struct rows *rows);

const struct unfold_row *rows_at(const struct rows *rows, size_t index);

/* Whether there is anything below a row: makes it known. */
bool rows_has_more(struct rows *rows, size_t index);

/* Shows what is below a row, on to where it branches. */
void rows_open(struct rows *rows, size_t index);
void rows_fold(struct rows *rows, size_t index);

/* All below a row that have at least so much, heaviest first within each level. False: there are
 * too many, and some stay folded. */
bool rows_open_below(struct rows *rows, size_t index, uint64_t min_total);
bool rows_open_all(struct rows *rows, uint64_t min_total);
void rows_fold_all(struct rows *rows);

/* The row that this one is below of, or itself at the top. */
size_t rows_parent(const struct rows *rows, size_t index);

/* Opens rows down to a node of the view's tree, and selects it. Of callees only. */
bool rows_reveal(struct rows *rows, uint32_t node);

/* Moves the selection, and what is on a screen of so many lines with it. */
void rows_move(struct rows *rows, long by);
void rows_scroll(struct rows *rows, size_t lines);

#endif
