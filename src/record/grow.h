/* A thread's tree in the making: its samples, what its engine has, and its perf events in one. */
#ifndef RECORD_GROW_H
#define RECORD_GROW_H

#include "base/vec.h"
#include "record/arena_view.h"
#include "record/engine.h"

struct grown_node {
    uint64_t key;
    uint32_t parent;
    const struct arena_node *measured; /* NULL: no samples */
    const uint64_t *perf;              /* of each perf event; NULL: nothing */
};

struct grown_tree {
    VEC(struct grown_node) items;
    uint32_t columns;           /* values of the engine that each node has */
    VEC(uint64_t) values;       /* those of one node after those of another */
    uint64_t sums[ENGINE_SUMS]; /* the engine's, of the thread */
    uint32_t *slots;            /* index plus one, by parent and key */
    size_t room;
};

/* The root comes first, in trees that have anything. */
void grown_root(struct grown_tree *tree);

/* The child of a node, which is made when there is none. */
uint32_t grown_child(struct grown_tree *tree, uint32_t parent, uint64_t key);

/* One of the engine's values of a node; it moves when nodes are made. */
static inline uint64_t *grown_value(const struct grown_tree *tree, uint32_t node, uint32_t column)
{
    return &tree->values.items[(size_t)node * tree->columns + column];
}

/* Adds the samples of a thread: nodes whose parents come before them. */
void grow_samples(struct grown_tree *tree, const struct arena_view *view,
                  const struct arena_thread *thread, uint32_t node_bytes);

/* The samples of a tree whose stack has a frame that is a guess. */
uint64_t grown_guessed(const struct grown_tree *tree);

void free_grown(struct grown_tree *tree);

#endif
