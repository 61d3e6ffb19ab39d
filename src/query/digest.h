/*
 * Digests: where the cost is, in a few rows.
 *
 * A digest is the tree of calls from the first place where it branches. Calls that lead nowhere
 * else are one row: a chain, from the function that was called to the one where the cost branches
 * again or stays. The heaviest rows are taken, as many as there is room for.
 */
#ifndef QUERY_DIGEST_H
#define QUERY_DIGEST_H

#include "query/outline.h"

struct digest_chain {
    uint32_t first, last; /* nodes of the view's tree; the same for a chain of one */
};

struct digest {
    struct outline outline;          /* `label` is that of the chain's last node */
    VEC(struct digest_chain) chains; /* by row */
    uint32_t
        above; /* the node whose path to the root is common to all rows and left out; 0: none */
};

void digest_make(const struct view *view, uint32_t limit_rows, uint64_t min_total,
                 struct digest *out);
void digest_free(struct digest *digest);

#endif
