/*
 * How large the k-inverses of a forest are, for every k at once, without making one: an inverse of
 * all callers can have depth times as many nodes as the forest.
 *
 * The nodes of the forest are put into classes by the last q labels of their paths, level by level:
 * a class at level q is a node of every k-inverse with k >= q. A class of one node stays as it is;
 * only the others are looked at again, so that the time is that of the paths that look alike.
 */
#ifndef CCT_INVERSE_SIZES_H
#define CCT_INVERSE_SIZES_H

#include "cct/contexts.h"

struct inverse_size {
    uint64_t nodes;  /* of contexts_invert */
    uint64_t pruned; /* of contexts_prune of that */
    uint64_t chains; /* paths of at most k callers in which something was charged: k-contexts */
};

struct inverse_sizes {
    struct inverse_size *by_k; /* for k below `levels`; greater ones are as the last */
    uint32_t levels;           /* of the forest */
};

/* Gets the values of all chains of k callers (or all that there are); may change their order. */
typedef void inverse_values_fn(void *user, uint32_t k, uint64_t *values, size_t count);

/* Values are those of `metric`. `see_values` may be NULL; it is called for the `k_count` numbers in
 * `ks`, which ascend. Free with inverse_sizes_free. */
void inverse_sizes(const struct contexts *in, uint32_t metric, const uint32_t *ks, size_t k_count,
                   inverse_values_fn *see_values, void *user, struct inverse_sizes *out);
void inverse_sizes_free(struct inverse_sizes *sizes);

#endif
