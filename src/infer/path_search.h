/*
 * Paths that training never met: from a function at a height backwards over all calls that may lead
 * to it, each of which takes the frame of its caller from the height, until what calls the
 * outermost function is reached with nothing left.
 *
 * How many paths there are to a function at a height is found once, and kept; so a search goes only
 * where there is a path. The answer is all paths of calls that training met or that are direct in
 * the code; if there are none, all with calls through pointers. Whether the first has others beside
 * it, through pointers, is known, too. Where there are more than PATH_SEARCH_MOST, there is no
 * answer.
 */
#ifndef INFER_PATH_SEARCH_H
#define INFER_PATH_SEARCH_H

#include "infer/path_graph.h"
#include "infer/path_train.h"

enum { PATH_SEARCH_MOST = 64, PATH_SEARCH_MOST_BYTES = 64 << 10 };

struct path_search_result {
    uint64_t identifiers;        /* that training never met */
    uint64_t found[PATH_LEVELS]; /* by the calls that it took */
    uint64_t whole[PATH_LEVELS]; /* of these, with all paths that the call graph has */
    uint64_t single;             /* of these, with one path */
    uint64_t cut;                /* there are more paths */
    uint64_t none;               /* there is no path */
    uint32_t unsized, unread;    /* of struct path_graph */
};

/*
 * Searches for what a profile has identifiers of and the map, which may be NULL, has no path of
 * training to. The profile's callers may be known, as with --engine exact --height, or heights.
 * Adds the paths to the trainer.
 */
int path_search(const struct path_map *map, const struct profile *profile, struct map_cache *cache,
                struct path_trainer *trainer, struct path_search_result *out, struct ct_error *err);

#endif
