/*
 * The calling context tree of one thread, in the arena. Only its thread touches it, in its signal
 * handler, so there is no lock; children are found by hashing (parent, key).
 */
#ifndef RUNTIME_CCT_H
#define RUNTIME_CCT_H

#include <stdbool.h>
#include <stdint.h>

struct cct {
    struct arena_thread *thread;
    struct arena_chunk *chunk; /* the one being filled */
    uint32_t *slots;           /* places of nodes; in the arena too */
    uint32_t slot_count;       /* a power of two */
    uint32_t node_count;
};

bool cct_begin(struct cct *tree, struct arena_thread *thread);

/* The child of a node; made if it is new. 0 when the arena is full. */
uint32_t cct_child(struct cct *tree, uint32_t parent, uint64_t key);

/*
 * A path that begins at a node: as cct_child for one key after the other, but faster. A key of 0
 * stays at the node before. The last node; 0 when the arena is full.
 */
enum { CCT_PATH_MOST = 32 };
uint32_t cct_path(struct cct *tree, uint32_t node, const uint64_t *keys, uint32_t count,
                  uint32_t *nodes);

/* Asks the supervisor for room for so many nodes more. */
void cct_want(const struct cct *tree, uint32_t nodes);

#endif
