#include "record/tree_order.h"

#include "base/search.h"
#include "profile/profile.h"

void tree_order_by_roots(const struct grown_tree *g, const uint32_t *roots, size_t root_count,
                         struct tree_order *order)
{
    uint32_t count = (uint32_t)g->items.count;
    uint32_t *root = must_calloc(count, sizeof *root);
    uint32_t *first = must_calloc(count, sizeof *first); /* of a root's nodes, so far */
    for (uint32_t i = 0; i < count; i++)
        first[i] = count;
    order->next = must_calloc(count, sizeof *order->next);
    order->number = must_calloc(count, sizeof *order->number);
    for (size_t i = 1; i < root_count; i++)
        root[roots[i]] = roots[i];
    for (uint32_t i = 1; i < count; i++)
        if (!root[i])
            root[i] = root[g->items.items[i].parent];
    for (uint32_t i = count; i-- > 0;) {
        order->next[i] = first[root[i]];
        first[root[i]] = i;
    }
    free(root);
    free(first);
}

/* Nodes that were measured are in order of their places. */
uint32_t tree_order_of_place(const void *context, const struct arena_view *v, uint32_t place)
{
    const struct numbered_tree *n = context;
    const char *wanted = v->bytes + (uint64_t)place * 8;
    size_t i, count = n->tree->measured.count;
    SEARCH(i, count, (const char *)n->tree->measured.items[i] < wanted);
    return i < count && (const char *)n->tree->measured.items[i] == wanted
               ? tree_order_number(n->order, (uint32_t)i)
               : CTP_NONE;
}
