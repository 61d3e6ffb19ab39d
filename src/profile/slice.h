/*
 * What a recording has measured between two moments: the later of two snapshots of it, less the
 * earlier one. Snapshots hold all since the start, and what they count only grows; so the slices of
 * a recording add up to its last snapshot, whenever they were taken.
 */
#ifndef PROFILE_SLICE_H
#define PROFILE_SLICE_H

#include "profile/profile.h"

/* Facts about a slice: from when to when, in ns since 1970, with a sign, so that merging does not
 * add them up. */
#define FACT_SLICE_START "slice_start_ns"
#define FACT_SLICE_END   "slice_end_ns"

/* A label that the profile is to have in a store: key=value is the string fact "label.key". */
#define FACT_LABEL "label."

struct slice_times {
    uint64_t start_ns, end_ns;
};

struct slice_facts {
    struct slice_times times;
    char *const *labels; /* key=value; ends with NULL */
};

/*
 * Writes the slice to `path`. Both snapshots are valid profiles of one recording; `older` is NULL
 * for the first slice. Contexts in which nothing was measured meanwhile are left out, and so are
 * threads and processes that had ended before. Fails if something is less than it was: that is no
 * snapshot of the same recording. Only processes may be missing altogether, which had ended.
 */
int slice_write(const struct profile *older, const struct profile *newer,
                const struct slice_facts *facts, const char *path, struct ct_error *err);

#endif
