/*
 * Unfolding: a tree of functions of which only what was asked for exists.
 *
 * A row is a function; it stands for the contexts that look the same from where the tree began. The
 * rows below it, its callees or its callers, are made when they are asked for, so that a tree with
 * the square of the profile's nodes can be walked through. An outline, which is made in one go,
 * has the heaviest rows instead.
 */
#ifndef QUERY_UNFOLD_H
#define QUERY_UNFOLD_H

#include "query/view.h"

struct unfold_row {
    uint32_t parent; /* an earlier row, or TREE_NONE */
    uint32_t label;
    uint32_t depth; /* 0 at the top */
    uint64_t self;  /* its own; of callers: what has no caller */
    uint64_t total;
    uint64_t count;           /* where the view has counts, and rows are calls: not of callers */
    bool is_known;            /* the rows below it were made: */
    uint32_t first, children; /* one behind the other, heaviest first */
    struct unfold_member *members;
    uint32_t member_count;
};

enum unfold_kind {
    UNFOLD_CALLEES,   /* from the outermost frames down */
    UNFOLD_CALLERS,   /* from functions with a value of their own up to their callers */
    UNFOLD_FUNCTIONS, /* every function with all that it called, and up to its callers */
};

/* Where it begins, instead of everything: nodes of the view's tree, none within another. Callers
 * are those of just these then; callees and functions are these, and what is below them. */
struct unfold_starts {
    VEC(uint32_t) nodes;
};

struct unfolding {
    const struct view *view;
    enum unfold_kind kind;
    VEC(struct unfold_row) rows; /* move when more are made */
    uint32_t tops;               /* rows without a parent, which are the first */
    uint32_t *group_of_label;
};

/* `starts` may be NULL. The view must outlive it. */
void unfold_begin(const struct view *view, enum unfold_kind kind,
                  const struct unfold_starts *starts, struct unfolding *out);
void unfold_end(struct unfolding *unfolding);

/* Makes the rows below this one, if they were not made yet. */
void unfold_row(struct unfolding *unfolding, uint32_t row);

/* The outermost nodes with this label below `within`, or in all of the tree when that is NULL. */
struct unfold_starts unfold_find(const struct view *view, uint32_t label,
                                 const struct unfold_starts *within);

#endif
