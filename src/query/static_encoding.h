/*
 * The encoding of contexts that one would have who knew the whole call graph, and how often each
 * edge is called, before the program runs: as compilers do it (PCCE), for comparison with engine
 * encode. It is made from a profile in which all calls were counted.
 *
 * Functions are numbered in the order of calls; each edge but those that close a cycle adds a
 * constant, the hottest that leads to a function 0. A call on an edge that closes a cycle pushes.
 */
#ifndef QUERY_STATIC_ENCODING_H
#define QUERY_STATIC_ENCODING_H

#include "profile/profile.h"

enum { STATIC_DEPTHS = 32 };

struct static_encoding {
    uint32_t functions, edges, back_edges;
    double ids;                     /* the largest count of contexts of a function (maxID) */
    uint64_t calls;                 /* all */
    uint64_t free_calls;            /* on edges that add 0 */
    uint64_t adding_calls;          /* on edges that add something */
    uint64_t pushing_calls;         /* on edges that close a cycle */
    double mean_depth;              /* of the stack of pushed contexts, over all calls */
    uint64_t depths[STATIC_DEPTHS]; /* calls by that depth; the last one: so many and more */
};

/* Fails if the profile has no counted calls. */
int static_encoding_of(const struct profile *profile, struct static_encoding *out,
                       struct ct_error *err);

#endif
