/*
 * What a map knows of a context identifier: the paths that lead to a function at a height.
 *
 * The walk of a window may have found frames inside that function, too. Training has met a path as
 * a whole if it met those below the same callers. Where there are such paths, no others are
 * answers. Where there are none, the path is new, and its callers may be new, too.
 */
#ifndef INFER_PATH_ANSWER_H
#define INFER_PATH_ANSWER_H

#include "infer/path_map.h"

/* All by the map's numbers; CTP_NONE for what training never saw. */
struct path_query {
    uint32_t function;     /* the last one that is known, and */
    uint64_t height_bytes; /* the height of its return address */
    uint32_t outermost;    /* the place of the thread's outermost call */
    const uint32_t *inner; /* places of calls from that function on to the innermost, */
    uint32_t inner_count;
    uint32_t leaf; /* and the innermost function; the same one, if there are none */
};

enum path_quality {
    PATH_PRECISE,   /* one path */
    PATH_LIKELY,    /* one path leads to the function; what comes inside it is new */
    PATH_AMBIGUOUS, /* several paths */
    PATH_MISSING,   /* none */
    PATH_QUALITIES
};

struct path_answer {
    enum path_quality quality;
    VEC(const struct path_context *) candidates; /* heaviest first */
};

/* The answer is kept from query to query, and freed with path_answer_free. */
void path_answer_find(const struct path_map *map, const struct path_query *query,
                      struct path_answer *answer);
void path_answer_free(struct path_answer *answer);

#endif
