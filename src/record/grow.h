/* A thread's tree in the making: its samples, what its engine has, and its perf events in one. */
#ifndef RECORD_GROW_H
#define RECORD_GROW_H

#include "base/progress.h"
#include "base/vec.h"
#include "record/arena_view.h"
#include "record/engine.h"

/* There may be many millions: what only some trees have is in columns of its own. */
struct grown_node {
    uint64_t key;
    uint32_t parent;
} __attribute__((packed, aligned(4)));

struct grown_tree {
    struct progress *progress; /* of the arena's bytes that are in trees; NULL: it is not shown */
    VEC(struct grown_node) items;
    VEC(const struct arena_node *) measured; /* of the first nodes; NULL: no samples */
    VEC(const uint64_t *) perf; /* of the first nodes, of each perf event; NULL: nothing */
    uint32_t columns;           /* values of the engine that each node has */
    VEC(uint64_t) values;       /* those of one node after those of another */
    uint64_t sums[ENGINE_SUMS]; /* the engine's, of the thread */
    uint32_t *slots;            /* index plus one, by parent and key */
    size_t room;
};

/* The root comes first, in trees that have anything. */
void grown_root(struct grown_tree *tree);

/* Makes room for so many nodes in all, for which there are places only when they are used. */
void grown_reserve(struct grown_tree *tree, size_t nodes);

/* So many bytes of the arena are in the tree now. */
static inline void grown_progress(const struct grown_tree *tree, uint64_t bytes)
{
    if (tree->progress)
        progress_add(tree->progress, bytes);
}

/* The child of a node, which is made when there is none. */
uint32_t grown_child(struct grown_tree *tree, uint32_t parent, uint64_t key);

/* No child is looked for any more. */
void grown_ends(struct grown_tree *tree);

/* One of the engine's values of a node; it moves when nodes are made. */
static inline uint64_t *grown_value(const struct grown_tree *tree, uint32_t node, uint32_t column)
{
    return &tree->values.items[(size_t)node * tree->columns + column];
}

/* The samples of a node, or NULL; its perf events, or NULL. */
static inline const struct arena_node *grown_measured(const struct grown_tree *tree, size_t node)
{
    return node < tree->measured.count ? tree->measured.items[node] : NULL;
}

static inline const uint64_t *grown_perf(const struct grown_tree *tree, size_t node)
{
    return node < tree->perf.count ? tree->perf.items[node] : NULL;
}

void grown_set_perf(struct grown_tree *tree, uint32_t node, const uint64_t *values);

/*
 * Adds the samples of a thread: nodes whose parents come before them. `bytes_left` begins as the
 * size of the arena, for all threads of it: each byte is in one chunk, and where threads have more,
 * the rest is made up.
 */
void grow_samples(struct grown_tree *tree, const struct arena_view *view,
                  const struct arena_thread *thread, uint32_t node_bytes, uint64_t *bytes_left);

/* The samples of a tree whose stack has a frame that is a guess. */
uint64_t grown_guessed(const struct grown_tree *tree);

void free_grown(struct grown_tree *tree);

#endif
