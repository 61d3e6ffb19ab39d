/*
 * When the samples of a page came.
 *
 * For each metric and value of a sample, entries in order of time: the page's node, the time in
 * steps of a width, and how many samples. The width is the finest with which there are not too many
 * entries: a microsecond for most profiles.
 */
#ifndef VIEW_PAGE_TIMES_H
#define VIEW_PAGE_TIMES_H

#include "base/json.h"
#include "base/vec.h"
#include "profile/time_range.h"

struct page_time_group {
    uint32_t metric, count;
    uint64_t value;
};

struct page_time {
    uint32_t node, at, samples;
};

struct page_times {
    uint64_t width_us;
    VEC(struct page_time_group) groups;
    VEC(struct page_time) items; /* one group behind the other */
};

/* `targets` are the page's nodes, by node of the profile. The times must have been verified. */
void page_times_find(const struct profile *profile, const uint32_t *targets, uint32_t most,
                     struct page_times *out);
void page_times_free(struct page_times *times);

/* As "times": {width, groups: [[metric, value, count], …]}. */
void page_times_write(struct json *json, const struct page_times *times);

#endif
