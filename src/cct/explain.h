/*
 * The shortest chains of callers that explain where a function's cost comes from.
 *
 * The value of a chain is what was charged to the function when called through it. A caller more
 * can only make it less. A chain explains a function to x% if it has at least x% of the function's
 * value.
 *
 * - If one caller has x%, there is one explaining chain. It is made longer as long as it explains.
 * - If not, the value comes from several callers. Each of the heaviest has a chain, which is made
 *   longer as long as it has x% of that caller's part.
 *
 * The last callers of such a longest chain often take nothing away: there is only one way to come
 * to where they call. The shortest chain of the same value says as much (it always has one caller,
 * so that a function with a single path shows where it is called); it is the minimal explaining
 * chain. The callers beyond it are those that it is always called from.
 *
 * Where the caller that has x% is a wrapper, it is a part of all chains, and what was said is said
 * of who calls the wrapper.
 */
#ifndef CCT_EXPLAIN_H
#define CCT_EXPLAIN_H

#include "cct/callers.h"

struct explained_chain {
    uint32_t first;   /* of its callers in `callers`, the direct one first */
    uint32_t callers; /* of the minimal chain; 0 only if the function has no caller */
    uint32_t reach;   /* of the longest chain, which is worth the same */
    uint64_t value;
};

struct explanation {
    uint32_t label;
    uint64_t value;
    uint32_t caller_count;              /* functions that call it, directly or through wrappers */
    uint64_t explained;                 /* by the chains together */
    bool one_chain;                     /* one caller has enough */
    bool spread;                        /* not even `chains_max` callers have */
    VEC(struct explained_chain) chains; /* heaviest first */
    VEC(uint32_t) callers;              /* labels */
};

struct explain_options {
    double percent;      /* above 0, up to 100 */
    uint32_t k;          /* callers of a chain at most */
    uint32_t chains_max; /* when there are several */
    const bool *wraps;   /* by label: passes calls on, and explains nothing; NULL: none does */
};

/* Explains one of callers->functions, whose items it may be asked for once only. Free with
 * explanation_free. */
void explain(struct callers *callers, struct caller_group function,
             const struct explain_options *options, struct explanation *out);
void explanation_free(struct explanation *explanation);

#endif
