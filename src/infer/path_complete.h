/*
 * Finds the callers of a profile's context identifiers in a path map: samples for which only the
 * height of the stack is known (record --engine infer).
 */
#ifndef INFER_PATH_COMPLETE_H
#define INFER_PATH_COMPLETE_H

#include "infer/path_answer.h"

/* What was found, in the unit of the profile's first metric. */
struct path_summary {
    uint64_t walked;                /* needed no map */
    uint64_t cost[PATH_QUALITIES];  /* of identifiers by what is known of them, and */
    uint32_t count[PATH_QUALITIES]; /* how many these are */
    uint64_t few;                   /* of what is ambiguous: among at most PATH_FEW paths */
    uint32_t most_paths;            /* that one has */
};

enum { PATH_FEW = 5 };

/* An identifier: a function that calls, or ran, at a height. */
struct path_found {
    uint32_t node; /* of the profile, with a cost; the path from its height on is known */
    uint64_t cost; /* in the first metric */
    const struct path_answer *answer; /* during the visit */
};

typedef void path_visit(void *context, const struct path_found *found);

/* Visits the identifiers of a profile, in the order of its nodes. */
int path_each(const struct path_map *map, const struct profile *profile, path_visit *visit,
              void *context, struct path_summary *summary, struct ct_error *err);

/*
 * Writes the profile with the callers that were found. Cost with several paths is split by their
 * weights among the `most` heaviest (0: all); what is left stays where it was, with a height for
 * callers. Metrics more say how much of each node's cost is precise, likely, or split.
 */
int path_complete(const struct path_map *map, const struct profile *profile, uint32_t most,
                  const char *path, struct ct_error *err);

/* Has the profile identifiers? */
bool path_has_heights(const struct profile *profile);

/* The node of the height that stands for the callers of a node, or CTP_NONE. */
uint32_t path_height_node(const struct profile *profile, uint32_t node);

#endif
