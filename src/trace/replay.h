/*
 * A trace made into a tree of calls: the k-slab forest that the program would have built, or its
 * whole calling context tree, with the number of calls as the only metric.
 */
#ifndef TRACE_REPLAY_H
#define TRACE_REPLAY_H

#include "cct/region.h"
#include "trace/trace.h"

struct replay_options {
    uint32_t k;          /* FOREST_UNBOUNDED: the calling context tree */
    bool sites;          /* calls from different places of a function are different */
    bool fold_recursion; /* a function that calls itself stays where it is */
};

struct replay {
    struct region region;
    struct forest forest; /* of labels; without sites, of functions */
    uint64_t calls;
};

/* Reads the trace to its end. The trace still has the names. End with replay_end. */
int replay_trace(struct trace *trace, const struct replay_options *options, struct replay *out,
                 struct ct_error *err);
void replay_end(struct replay *replay);

#endif
