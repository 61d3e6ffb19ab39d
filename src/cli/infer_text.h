/* What calltrail infer prints. */
#ifndef CLI_INFER_TEXT_H
#define CLI_INFER_TEXT_H

#include "infer/path_search.h"

#include <stdio.h>

struct infer_options {
    const char *output, *weight;
    uint32_t top_paths; /* 0: all */
    uint64_t window_bytes;
    double most_growth; /* of the stack; 0: as usual */
    double most_calls;  /* in percent; less than 0: as usual */
};

/* How much of a profile's cost the map finds callers for; and what is ambiguous, heaviest first. */
int infer_print_answers(const struct path_map *map, const struct profile *profile,
                        const struct infer_options *options, struct ct_error *err);

int infer_print_score(const struct path_map *map, const struct profile *truth,
                      const struct infer_options *options, struct ct_error *err);

int infer_print_unseen(const struct path_map *map, const struct profile *profile,
                       const struct infer_options *options, struct ct_error *err);

/* `at`: MODULE+OFFSET,HEIGHT. */
int infer_print_at(const struct path_map *map, const char *at, const struct infer_options *options,
                   struct ct_error *err);

/* The paths that may have led to where the threads of a core file were. */
int infer_print_core(const struct path_map *map, const char *core,
                     const struct infer_options *options, struct ct_error *err);

/* Makes of a map one whose identifiers are distinct, where frames can grow; and says how much. */
int infer_resize(const char *map, const struct infer_options *options, struct ct_error *err);

/* What became of the identifiers of a profile. */
void infer_print_search(const char *name, const struct path_search_result *result);

#endif
