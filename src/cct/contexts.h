/*
 * Forests of labels with values, offline: what becomes of calling context trees and k-slab forests
 * when callers are looked at from their callees.
 *
 * The k-inverse of a forest has a tree for each label, whose paths are the ends of the forest's
 * paths, backwards: a node stands for a chain of at most k callers and the function at its root,
 * and its values are the sum over all nodes of the forest whose path ends with that chain. Of a CCT
 * or a k-slab forest it is the k-calling-context forest (k-CCF): k = 0 is values for each function,
 * k = 1 for each pair of caller and callee.
 */
#ifndef CCT_CONTEXTS_H
#define CCT_CONTEXTS_H

#include "cct/forest.h"

#define CONTEXTS_NONE      UINT32_MAX
#define CONTEXTS_UNBOUNDED UINT32_MAX /* as k: all callers */

struct context {
    uint32_t parent; /* a lower number; CONTEXTS_NONE for a root */
    uint32_t label;
    uint32_t source; /* of an inverse: a node of the inverted forest whose path ends with this chain
                      * and, for a leaf, with nothing more; elsewhere CONTEXTS_NONE */
    bool cut;        /* what is left of a chain of single callers; the source has the rest */
};

/* No two nodes have the same parent and label. Free with contexts_free. */
struct contexts {
    struct context *nodes;
    uint64_t *values; /* metric_count for each node */
    uint32_t count, metric_count;
};

void contexts_free(struct contexts *contexts);

/* How many children a node has on average that has any. */
double contexts_degree(const struct contexts *contexts);

/* The nodes of a forest that was built online. */
void contexts_from_forest(const struct forest *forest, struct contexts *out);

/* The weighted join of a forest with itself under new labels, new_labels[label]: makes one of call
 * sites of the same function, for instance. */
void contexts_relabel(const struct contexts *in, const uint32_t *new_labels, struct contexts *out);

/* The k-inverse, in O(k n). */
void contexts_invert(const struct contexts *in, uint32_t k, struct contexts *out);

/*
 * A k-inverse without its chains: where a node has one caller, with the same values, that again has
 * one, and so on to a leaf, only the first is kept, marked `cut`. contexts_restore puts them back,
 * out of the forest that was inverted.
 */
void contexts_prune(const struct contexts *inverse, struct contexts *out);
void contexts_restore(const struct contexts *pruned, const struct contexts *source, uint32_t k,
                      struct contexts *out);

/*
 * The part of the k-inverse whose nodes have at least `percent` of their root's value of a metric,
 * made without the rest: O(n) for each level that is left. Labels without any value have no tree.
 */
void contexts_similar(const struct contexts *in, uint32_t k, uint32_t metric, double percent,
                      struct contexts *out);

#endif
