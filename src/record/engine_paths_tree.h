/* What engine `paths` counted, as nodes of a tree. */
#ifndef RECORD_ENGINE_PATHS_TREE_H
#define RECORD_ENGINE_PATHS_TREE_H

#include "record/grow.h"

/* The sums that it keeps. */
enum paths_sum {
    PATHS_COUNTED,
    PATHS_LOST,
    PATHS_SEEN,
    PATHS_FUNCTIONS,
    PATHS_WITHOUT,
    PATHS_RELOCATED,
    PATHS_NOT_RELOCATED
};

void *paths_tree_begin(const struct server *server, const struct arena_view *view);
void paths_tree_grow(void *state, const struct arena_view *view, const struct arena_thread *thread,
                     struct grown_tree *tree);
void paths_tree_end(void *state);

#endif
