/*
 * Outlines: the heaviest part of a tree of calls, downwards to callees or upwards to callers.
 *
 * Upwards, a row is a function, its children are its callers, and so on; the full tree of that kind
 * can have the square of the profile's nodes. So rows are made on demand, heaviest first, until
 * there are enough. A row stands for a group of contexts that look the same from where the outline
 * began.
 */
#ifndef QUERY_OUTLINE_H
#define QUERY_OUTLINE_H

#include "query/view.h"

enum row_order { ORDER_TOTAL, ORDER_NAME };

struct outline_options {
    uint64_t min_total;  /* rows with less are left out */
    uint32_t limit_rows; /* 0: all */
    uint32_t depth_max;  /* levels; 0: all */
    bool hot_path;       /* of the children of a row, only the heaviest */
    enum row_order order;
};

struct outline_row {
    uint32_t parent; /* an earlier row, or TREE_NONE */
    uint32_t label;
    uint32_t depth;    /* 0 at the top */
    uint32_t children; /* how many rows have this one as parent */
    bool last;         /* of its siblings */
    uint64_t self;     /* downwards: its own; upwards: what has no caller */
    uint64_t total;
    uint64_t count; /* downwards, where the view has counts */
};

struct outline {
    VEC(struct outline_row) rows; /* each followed by the rows below it */
    uint32_t tops;                /* rows without a parent */
    uint64_t left_out;            /* rows that were seen and are not here */
};

/* From the outermost frames down. */
void outline_topdown(const struct view *view, const struct outline_options *options,
                     struct outline *out);

/* From every function that has a value of its own up to its callers. */
void outline_bottomup(const struct view *view, const struct outline_options *options,
                      struct outline *out);

/*
 * From the functions with wanted[label] down to what they call, or up to who calls them. Calls of
 * such a function within itself belong to the outermost one and are not counted again.
 */
void outline_callees(const struct view *view, const bool *wanted,
                     const struct outline_options *options, struct outline *out);
void outline_callers(const struct view *view, const bool *wanted,
                     const struct outline_options *options, struct outline *out);

void outline_free(struct outline *outline);

#endif
