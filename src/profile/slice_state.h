/*
 * What the two halves of slicing share: which things of two snapshots are the same. No other
 * file includes this.
 */
#ifndef PROFILE_SLICE_STATE_H
#define PROFILE_SLICE_STATE_H

#include "base/key_set.h"
#include "base/strings.h"
#include "profile/slice.h"

/* Numbers of what the records of one snapshot are, the same for both. */
struct slice_side {
    const struct profile *profile;
    uint32_t *modules, *frames, *processes, *threads, *nodes;
};

struct slice {
    struct string_pool texts;
    struct key_set modules, frames, processes, threads, roots, contexts;
    uint32_t *older[3];         /* by number of a process, thread, module: its older index */
    struct slice_side sides[2]; /* older, newer; the older one may have no profile */
    uint64_t **values;          /* by metric of the newer one and node: what the slice has */
    bool *kept;                 /* nodes of the newer one that are in the slice */
};

/* Numbers everything, and finds out what is left of the newer one. */
int slice_compare(struct slice *slice, const struct profile *older, const struct profile *newer,
                  struct ct_error *err);
void slice_free(struct slice *slice);

/* The fact of the older snapshot that is the same as the newer one's, or NULL. */
const struct ctp_fact *slice_older_fact(const struct slice *slice, const struct ctp_fact *fact);

#endif
