/*
 * Functions without their contexts: what each was charged itself, and with all that it called.
 */
#ifndef QUERY_FLAT_H
#define QUERY_FLAT_H

#include "query/view.h"

struct flat_row {
    uint32_t label;
    uint32_t contexts; /* in which it was called */
    uint64_t self;
    uint64_t total; /* calls of a function within itself are not counted again */
    uint64_t count; /* where the view has counts: of all its calls */
};

/* One row for each label that occurs in the tree, in no order. The caller frees it. */
struct flat_row *flat_rows(const struct view *view, uint32_t *count);

/* The same, where what was charged to functions that wrap others (by label) is charged to their
 * callers; those have no row then, unless they have no caller. */
struct flat_row *flat_rows_through(const struct view *view, const bool *wraps, uint32_t *count);

#endif
