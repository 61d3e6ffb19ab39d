/*
 * How good a map is: every context of a profile whose contexts are known is looked up as if only
 * its function and height, or a window of its stack, had been seen.
 */
#ifndef INFER_PATH_SCORE_H
#define INFER_PATH_SCORE_H

#include "infer/path_answer.h"

/* By paths, each of which counts once, and by their weight. */
enum path_share { SHARE_PATHS, SHARE_WEIGHT, PATH_SHARES };

/* Degrees of ambiguity up to which answers are counted. */
enum { PATH_DEGREES = 5 };
extern const uint32_t path_degrees[PATH_DEGREES];

struct path_score {
    uint64_t total;
    uint64_t walked;                    /* the window reaches the end of the stack */
    uint64_t right[PATH_QUALITIES];     /* answers that have the true path */
    uint64_t incorrect[PATH_QUALITIES]; /* answers that do not */
    uint64_t within[PATH_DEGREES];      /* the true path is one of so many at most */
    uint64_t functions;                 /* one path, and the true one, where places of calls in one
                                           function are not told apart */
    unsigned __int128 degrees;          /* sum of the number of paths, over answers with any */
    uint64_t answered;
};

struct path_scores {
    struct path_score by[PATH_SHARES];
    uint32_t most_paths;
    uint64_t trained; /* paths that training met */
    uint64_t highest_bytes, highest_grown_bytes;
    double bytes, grown_bytes; /* of stack, times weight */
    uint64_t lookups;
    uint64_t lookup_ns, lookup_cycles; /* of all; cycles of the time stamp counter */
    const char *unit;                  /* of the weight */
};

/*
 * `weight`: a metric's name, or NULL: calls, or the first. `window_bytes` of the stack are seen; it
 * is taken to begin below the deepest call of each function, which the profile knows.
 */
int path_score(const struct path_map *map, const struct profile *truth, const char *weight,
               uint64_t window_bytes, struct path_scores *out, struct ct_error *err);

/* Visits the contexts of a profile with heights whose function and height training never saw. */
typedef void path_unseen_visit(void *context, uint32_t node, uint64_t height_bytes,
                               uint64_t weight);

struct path_unseen {
    uint64_t contexts, unseen; /* identifiers, each once for each context */
    uint64_t weight, unseen_weight;
    const char *unit;
};

int path_unseen(const struct path_map *map, const struct profile *profile, const char *weight,
                path_unseen_visit *visit, void *context, struct path_unseen *out,
                struct ct_error *err);

#endif
