/*
 * Trees of calls, built while the calls happen: calling context trees and k-slab forests.
 *
 * A k-slab forest (k-SF) keeps the last k callers of every call, and at most 2k-1: trees that begin
 * at every k-th level of the calling context tree, joined by label. A tree has a top region (levels
 * below k) and a bottom region (levels k to 2k-1); every call below level k of the stack is in
 * both: in the bottom region of the tree that began one slab ago, and in the top region of the tree
 * that began last. With k = FOREST_UNBOUNDED the only tree is the calling context tree (CCT).
 *
 * What is known about the top location is known from the bottom one: its path is the rest of the
 * bottom location's path, from level k on. So one location is enough, and one step for a call: from
 * the node to its child with the callee's label; or at the last level, where the tree ends, from
 * the node's twin in the top region of the next tree, to which it keeps a link. Twins are made when
 * they are first needed. What is never gone on from has none, so that the forest lacks those nodes
 * of the k-SF that nothing is ever charged to, and that say nothing that others do not.
 * (forest_enter_pair is the step with two locations, as it was first published: it makes the whole
 * k-SF.)
 *
 * Costs are charged to the current location: of two, the bottom one. The top region is charged
 * while the stack is less deep than k, when there is no bottom location yet. Each cost is then
 * charged exactly once, in a node that has all callers that there are, or at least k of them.
 *
 * This part can run inside a program under test: no libc, no locks, no memory but what the owner
 * gives. When that ends, what cannot be kept is counted in `lost`.
 */
#ifndef CCT_FOREST_H
#define CCT_FOREST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FOREST_UNBOUNDED UINT32_MAX
#define FOREST_K_MAX     UINT32_C(0x7fffffff)
#define FOREST_CROWDED   UINT32_MAX /* as the first child: more than a list should have */

/* How the children of a node are found. */
enum forest_layout {
    FOREST_HASHED,   /* a few: a list; more: one hash table over (parent, label) */
    FOREST_SIBLINGS, /* a list: first child, next sibling */
    FOREST_INDEXED,  /* an array in each node, by a number that each caller gives its callees */
};

/*
 * Where nodes come from: `take` gives zeroed memory, aligned to 8, that never moves and lies behind
 * `base` by 8 bytes to 32 GB; or NULL when there is no more. Nothing is given back.
 */
struct forest_memory {
    void *base;
    void *(*take)(struct forest_memory *memory, size_t bytes);
};

/* A node is named by its place: its distance from the base of the memory in units of 8 bytes. 0 is
 * no node. */
struct forest_node {
    uint32_t label;
    uint32_t parent; /* 0 for the root of a tree */
    uint32_t level;  /* in its tree */
    uint32_t twin; /* in the bottom region: the same call in the top region of another tree, or 0 */
    uint32_t first; /* the first child; indexed: the array; hashed: or FOREST_CROWDED */
    uint32_t next;  /* the next sibling */
    uint64_t values[];
};

enum { FOREST_CHUNK_NODES = 256 };

/* Nodes in the order in which they were made. */
struct forest_chunk {
    uint32_t next; /* place of the one before */
    uint32_t count;
    uint64_t nodes[];
};

struct forest_options {
    enum forest_layout layout;
    uint32_t k; /* from 1 to FOREST_K_MAX, or FOREST_UNBOUNDED */
    uint32_t metric_count;
    const uint32_t *degrees; /* indexed: by label, how many callees it has; outlives the forest */
};

struct forest {
    uint8_t *base;
    struct forest_memory *memory;
    struct forest_options options;
    uint32_t last_level; /* 2k-1 */
    uint32_t node_bytes, node_count;
    uint32_t *slots; /* open addressing: places. Roots (parent 0) are here in every layout */
    uint32_t slot_shift, slot_room, slot_used;
    struct forest_chunk *chunk; /* the newest */
    uint64_t lost;              /* charges that had no place */
};

/* False when there is not even memory to begin. */
bool forest_begin(struct forest *forest, struct forest_memory *memory,
                  const struct forest_options *options);

/* What the steps below do when there is no such node yet, or no twin: make it. 0: no memory. */
uint32_t forest_add(struct forest *forest, uint32_t parent, uint32_t label, uint32_t key);
uint32_t forest_add_twin(struct forest *forest, uint32_t place);

static inline struct forest_node *forest_at(const struct forest *f, uint32_t place)
{
    return (struct forest_node *)(void *)(f->base + (uint64_t)place * 8);
}

static inline uint32_t forest_slot(const struct forest *f, uint32_t parent, uint32_t label)
{
    /* Two multiplications that do not wait for each other. */
    uint64_t hash = label * UINT64_C(0x9e3779b97f4a7c15) ^ parent * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(hash >> f->slot_shift);
}

/* The child in the table, or 0. */
static inline uint32_t forest_look_up(const struct forest *f, uint32_t parent, uint32_t label)
{
    uint32_t mask = (uint32_t)(UINT64_C(1) << (64 - f->slot_shift)) - 1;
    for (uint32_t i = forest_slot(f, parent, label); f->slots[i]; i = (i + 1) & mask) {
        const struct forest_node *node = forest_at(f, f->slots[i]);
        if (node->label == label && node->parent == parent)
            return f->slots[i];
    }
    return 0;
}

/* The root of the tree of a label: where a thread begins. */
static inline uint32_t forest_root(struct forest *f, uint32_t label)
{
    uint32_t place = forest_look_up(f, 0, label);
    return place ? place : forest_add(f, 0, label, 0);
}

/*
 * The child of a node; made if it is new. `layout` is the forest's own, given as a constant so that
 * the compiler leaves out the others; `key` is the callee's number in its caller, if indexed.
 */
static inline __attribute__((always_inline)) uint32_t forest_child(struct forest *f,
                                                                   enum forest_layout layout,
                                                                   uint32_t parent, uint32_t label,
                                                                   uint32_t key)
{
    uint32_t place = forest_at(f, parent)->first;
    switch (layout) {
    case FOREST_HASHED:
        if (place == FOREST_CROWDED) {
            place = forest_look_up(f, parent, label);
            if (place)
                return place;
            break;
        }
        /* Most callers have few callees, and those lie close together. */
        __attribute__((fallthrough));
    case FOREST_SIBLINGS:
        for (; place; place = forest_at(f, place)->next)
            if (forest_at(f, place)->label == label)
                return place;
        break;
    case FOREST_INDEXED:
        place = ((const uint32_t *)(const void *)forest_at(f, place))[key];
        if (place)
            return place;
        break;
    }
    return forest_add(f, parent, label, key);
}

/* One step: from the caller's location (not 0) to that of a function that it calls. */
static inline __attribute__((always_inline)) uint32_t forest_enter(struct forest *f,
                                                                   enum forest_layout layout,
                                                                   uint32_t from, uint32_t label,
                                                                   uint32_t key)
{
    const struct forest_node *node = forest_at(f, from);
    if (node->level == f->last_level) {
        from = node->twin ? node->twin : forest_add_twin(f, from);
        if (__builtin_expect(from == 0, 0))
            return 0;
    }
    return forest_child(f, layout, from, label, key);
}

/* The step with two locations. Both are 0 before the first call; `bottom` is while the stack is
 * less deep than k. Charge `bottom`, or `top` when that is 0. */
struct forest_pair {
    uint32_t top, bottom;
};

static inline __attribute__((always_inline)) struct forest_pair
forest_enter_pair(struct forest *f, enum forest_layout layout, struct forest_pair from,
                  uint32_t label, uint32_t key)
{
    struct forest_pair to;
    if (from.top == 0 || forest_at(f, from.top)->level == f->options.k - 1) {
        from.bottom = from.top;
        to.top = forest_root(f, label);
    } else {
        to.top = forest_child(f, layout, from.top, label, key);
    }
    to.bottom = from.bottom ? forest_child(f, layout, from.bottom, label, key) : 0;
    return to;
}

/* Adds to a value of a location; 0 is where there was no room. */
static inline void forest_charge(struct forest *f, uint32_t place, uint32_t metric, uint64_t amount)
{
    if (__builtin_expect(place != 0, 1))
        forest_at(f, place)->values[metric] += amount;
    else
        f->lost++;
}

/*
 * The locations of the active calls of one thread. What is deeper than the room has no location;
 * the depth is still counted, so that returns find their way back.
 */
struct forest_stack {
    uint32_t *places;
    uint32_t room;
    uint64_t depth;
};

/* A call: the location to charge, which may be 0. */
static inline __attribute__((always_inline)) uint32_t forest_call(struct forest *f,
                                                                  enum forest_layout layout,
                                                                  struct forest_stack *stack,
                                                                  uint32_t label, uint32_t key)
{
    uint64_t depth = stack->depth++;
    uint32_t place = 0;
    if (__builtin_expect(depth >= stack->room, 0))
        return 0;
    if (__builtin_expect(depth == 0, 0))
        place = forest_root(f, label);
    else if (__builtin_expect(stack->places[depth - 1] != 0, 1))
        place = forest_enter(f, layout, stack->places[depth - 1], label, key);
    stack->places[depth] = place;
    return place;
}

static inline void forest_return(struct forest_stack *stack)
{
    if (stack->depth)
        stack->depth--;
}

#endif
