/*
 * Merging over the ranks of an MPI job.
 *
 * Every rank merges its share of the files; then the results go up a binomial tree: in step s a
 * rank whose number has bit s set sends its own to the rank without that bit, and is done. Rank 0
 * has the sum in the end. Since the order and the grouping of profiles do not matter (merge.h), it
 * is the sum that one process would have made, byte for byte.
 *
 * A part travels as an ordinary profile, through unnamed files on either side (TMPDIR) and in
 * pieces: a rank holds its own sum, and of the other's what merging a profile needs.
 */
#ifndef MPI_REDUCE_H
#define MPI_REDUCE_H

#include "profile/merge_files.h"

/* What a step of the tree took. */
struct reduce_step {
    uint64_t bytes;    /* of the part that came or went */
    double transfer_s; /* of sending, or of waiting and receiving */
    double work_s;     /* of writing it, or of adding it */
};

enum { REDUCE_STEPS_MAX = 32 };

struct reduce_times {
    double share_s; /* of the rank's own files */
    uint32_t files;
    uint32_t steps;
    struct reduce_step step[REDUCE_STEPS_MAX];
};

/*
 * All ranks call it with the same list. On rank 0 `merge` holds the sum of all ranks then, or the
 * status is an error, whichever rank found it; the other ranks fail if they or those below them
 * did. Errors of MPI itself end the job, as MPI does.
 */
int reduce_files(struct merge *merge, const struct file_list *files, struct reduce_times *times,
                 struct ct_error *err);

#endif
