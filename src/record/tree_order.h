/* The order in which the nodes of a thread are written: one tree after the other. */
#ifndef RECORD_TREE_ORDER_H
#define RECORD_TREE_ORDER_H

#include "record/grow.h"

/*
 * A tree for each phase, and first the one of no phase, whose root is the thread's. `next[i]` is
 * the next node of the tree that node i is in, or behind all nodes; `number[i]` its number in the
 * profile. Without phases neither is there: all is one tree, in order.
 */
struct tree_order {
    uint32_t *next, *number;
    uint32_t first_number;
};

/* `roots`: the first nodes of all trees, in order; the first is 0. Both arrays are to be freed. */
void order_by_roots(const struct grown_tree *tree, const uint32_t *roots, size_t root_count,
                    struct tree_order *order);

#endif
