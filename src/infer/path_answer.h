/*
 * What a map knows of a context identifier: the paths that lead to a function at a height. Those of
 * training come first: only where it has none, those that were searched are answers, and never
 * precise.
 *
 * The walk of a window may have found frames inside that function, too. Training has met a path as
 * a whole if it met those below the same callers. Where there are such paths, no others are
 * * answers. Where there are none, the path is new, and its callers may be new, too.
 *
 * A path that training never met may have a function and height that it has met: then the only path
 * of the map is wrong, and nothing in the sample says so. But where that happens, other identifiers
 * of the function are mostly unknown to the map, or the identifier is met far more often than in
 * training. So an answer counts as precise only if all the identifiers of its function are known
 * that have been asked for, and nearly all of all functions; and, with two registers alone, if
 * training met the identifier nearly as often, or more often, among all of the function: who wants
 * answers asks for all of them first, settles that, and asks once more.
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
    uint64_t cost; /* that is asked for, in any unit */
    uint32_t leaf; /* and the innermost function; the same one, if there are none */
};

enum path_quality {
    PATH_PRECISE,   /* one path */
    PATH_LIKELY,    /* one path; but training has not met all that was asked for */
    PATH_AMBIGUOUS, /* several paths; or there may be others */
    PATH_MISSING,   /* none */
    PATH_QUALITIES
};

struct path_answer {
    enum path_quality quality;
    uint64_t asked, missed; /* queries, and those without an answer, since they were settled last */
    bool is_searched;       /* the candidates are not of training, which had none */
    bool is_unfit;          /* too many of these: the map was trained with other work */
    bool is_settled;
    uint64_t *weights;    /* of each function of the map, in training, and */
    uint64_t *costs;      /* what was asked for of it with two registers; */
    struct key_set keys;  /* of its heights, */
    VEC(uint64_t) shares; /* how much of that */
    bool *has_missed;     /* of each function of the map: it had an identifier without an answer */
    VEC(const struct path_context *) candidates; /* heaviest first */
};

void path_answer_begin(struct path_answer *answer, const struct path_map *map);

/* All has been asked for once. */
void path_answer_settle(struct path_answer *answer);

/* The answer is kept from query to query. */
void path_answer_find(const struct path_map *map, const struct path_query *query,
                      struct path_answer *answer);
void path_answer_free(struct path_answer *answer);

#endif
