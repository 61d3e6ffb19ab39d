/* In which order the nodes of a thread are written, and what number each has in the profile. */
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

static inline uint32_t tree_order_number(const struct tree_order *order, uint32_t node)
{
    return order->number ? order->number[node] : order->first_number + node;
}

/* Makes the order of a tree that has phases: `roots` are the nodes at which they begin. */
void tree_order_by_roots(const struct grown_tree *tree, const uint32_t *roots, size_t root_count,
                         struct tree_order *order);

/* A thread's nodes with their numbers: the one of a place in the arena, or CTP_NONE. */
struct numbered_tree {
    const struct grown_tree *tree;
    const struct tree_order *order;
};
uint32_t tree_order_of_place(const void *numbered_tree, const struct arena_view *view,
                             uint32_t place);

#endif
