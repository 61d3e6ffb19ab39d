/* A thread's tree in the making: its samples, its calls and its perf events in one. */
#ifndef RECORD_GROW_H
#define RECORD_GROW_H

#include "base/vec.h"
#include "runtime/arena_format.h"

#include <stdbool.h>

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

void free_grown(struct grown_tree *tree);

#endif
