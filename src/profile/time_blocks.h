/*
 * Times of samples on their way into a profile: blocks of one metric, value and span, in any order,
 * become the runs of a file.
 */
#ifndef PROFILE_TIME_BLOCKS_H
#define PROFILE_TIME_BLOCKS_H

#include "base/vec.h"
#include "profile/ctp_format.h"

#include <stdbool.h>

struct time_blocks {
    VEC(struct ctp_time_run) runs; /* blocks, until they are settled */
    VEC(struct ctp_time) items;
    bool has_too_many;
};

void time_blocks_add(struct time_blocks *blocks, const struct ctp_time_run *run,
                     const struct ctp_time *items, size_t count);

/* Puts them in order: one run for each metric, value and span. False: there are too many. */
bool time_blocks_settle(struct time_blocks *blocks);

void time_blocks_free(struct time_blocks *blocks);

#endif
