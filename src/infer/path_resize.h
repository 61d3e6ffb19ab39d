/*
 * Makes identifiers distinct: chooses calls before which the stack is to grow (edit/growth.h), so
 * that paths which had the same function and height have different ones.
 *
 * Greedy, by weight: of the heaviest identifier with several paths, the two heaviest are looked at;
 * of the calls that one of them has more often than the other, and of all sizes, the choice is what
 * makes most of all weight precise. It stays if it is better than before, and worth the time that
 * the calls take which grow. The highest stack that training met must not get higher than by a
 * factor.
 */
#ifndef INFER_PATH_RESIZE_H
#define INFER_PATH_RESIZE_H

#include "edit/growth.h"
#include "infer/path_map.h"

/* Shares of contexts that are the only ones with their function and height. */
struct path_precision {
    uint64_t paths, weight; /* precise, */
    uint64_t few_paths;     /* or among PATH_FEW */
    uint64_t highest_bytes; /* stack */
    double mean_bytes;      /* by weight */
    uint64_t calls_weight;  /* of calls that grow */
};

struct path_resize_result {
    struct growth growth; /* the caller frees it */
    uint64_t paths, weight;
    struct path_precision before, after;
    uint64_t calls[GROWTH_REASONS]; /* places of training: where the stack may grow, or why not */
    uint64_t looks[ABOVE_KINDS];    /* of these, with GROWTH_LOOKS, why */
    uint64_t unread;                /* places in modules whose file is another, or not there */
    uint64_t tried;
    uint64_t time_ns;
    bool is_cut; /* it took too long: there is more to be had */
};

struct path_resize_limits {
    double growth; /* of the stack: 1.13 is 13% more */
    double calls;  /* the share of all weight that is called from where the stack grows */
};

void path_resize(const struct path_map *map, struct map_cache *cache,
                 const struct path_resize_limits *limits, struct path_resize_result *out);

#endif
