/* A thread's tree in the making: its samples, its calls and its perf events in one. */
#ifndef RECORD_GROW_H
#define RECORD_GROW_H

#include "base/vec.h"
#include "record/arena_view.h"
#include "runtime/exact/exact_format.h"

struct grown_node {
    uint64_t key;
    uint32_t parent;
    const struct arena_node *measured; /* NULL: calls only */
    uint64_t calls;
    uint32_t height; /* of its stack, in bytes: engine exact */
    bool height_varies;
    const uint64_t *perf; /* of each perf event; NULL: nothing */
};

struct grown_tree {
    VEC(struct grown_node) items;
    uint64_t calls, records; /* of engine exact */
    uint32_t *slots;         /* index plus one, by parent and key */
    size_t room;
};

/* The child of a node (CTP_NONE: the root), which is made when there is none. */
uint32_t grown_child(struct grown_tree *tree, uint32_t parent, uint64_t key);

/* Adds the samples of a thread: nodes whose parents come before them. */
void grow_samples(struct grown_tree *tree, const struct arena_view *view,
                  const struct arena_thread *thread, uint32_t node_bytes);

/* The samples of a tree whose stack has a frame that is a guess. */
uint64_t grown_guessed(const struct grown_tree *tree);

/*
 * What is known of the records of one arena, by their places: the node that its callees hang below,
 * and, for heights, the slot of the outermost record that has one.
 */
struct record_tables {
    size_t room;
    uint32_t *nodes;     /* numbered through all threads, plus one: */
    uint32_t first;      /* that of the thread at hand */
    uint32_t *outermost; /* NULL: no heights */
};

void record_tables_begin(struct record_tables *tables, const struct arena_view *view, bool heights);
void record_tables_end(struct record_tables *tables);

/* Adds the calls of a thread: records whose parents come before them. */
void grow_calls(struct grown_tree *tree, const struct arena_view *view,
                const struct arena_thread *thread, struct record_tables *tables);

void free_grown(struct grown_tree *tree);

#endif
