/*
 * The stack heights of a profile's contexts: which nodes have one, and which are places of tail
 * jumps, whose frames are gone when what they jumped to runs.
 *
 * A function that was called is a node below the place that called it. With engine exact a tail
 * jump is such a place, too, that walks of the stack never see: the height of the function that
 * jumped is that of the function it jumped to.
 */
#ifndef INFER_PATH_HEIGHTS_H
#define INFER_PATH_HEIGHTS_H

#include "base/key_set.h"
#include "profile/profile.h"

struct path_heights {
    const struct profile *profile;
    uint32_t metric;
    struct key_set keys; /* parent and function of nodes that have a height, */
    VEC(uint32_t) nodes; /* and which these are */
    bool *tails;
};

void path_heights_begin(struct path_heights *heights, const struct profile *profile,
                        uint32_t metric);
void path_heights_end(struct path_heights *heights);

/* Does the node stand for a function whose return address is at a height that is known? */
bool path_heights_has(const struct path_heights *heights, uint32_t node);

bool path_heights_is_tail(const struct path_heights *heights, uint32_t node);

/* The node with the height of the function that a place is in; CTP_NONE: it is not known. */
uint32_t path_heights_own(const struct path_heights *heights, uint32_t node);

#endif
