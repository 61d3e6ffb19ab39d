#include "cct/forest.h"

/* From 4 to 12 children in a list there was no difference that could be measured. */
enum { FIRST_SLOT_BITS = 9, LISTED_MAX = 8, NODES_START = sizeof(struct forest_chunk) };

static uint32_t place_of(const struct forest *f, const void *address)
{
    return (uint32_t)(((uintptr_t)address - (uintptr_t)f->base) / 8);
}

static bool take_slots(struct forest *f, uint32_t bits)
{
    uint32_t count = UINT32_C(1) << bits;
    uint32_t *slots = f->memory->take(f->memory, count * sizeof *slots);
    if (!slots)
        return false;
    f->slots = slots;
    f->slot_shift = 64 - bits;
    f->slot_room = count / 4 * 3;
    return true;
}

bool forest_begin(struct forest *f, struct forest_memory *memory,
                  const struct forest_options *options)
{
    uint32_t k = options->k;
    *f = (struct forest){
        .base = memory->base,
        .memory = memory,
        .options = *options,
        .last_level = k > FOREST_K_MAX ? FOREST_UNBOUNDED : 2 * k - 1,
        .node_bytes = (uint32_t)(sizeof(struct forest_node) + options->metric_count * 8),
    };
    return take_slots(f, FIRST_SLOT_BITS);
}

/* For a place that is not in the table, and has a slot reserved. */
static void put_in_table(struct forest *f, uint32_t place)
{
    const struct forest_node *node = forest_at(f, place);
    uint32_t mask = (uint32_t)(UINT64_C(1) << (64 - f->slot_shift)) - 1;
    uint32_t i = forest_slot(f, node->parent, node->label);
    while (f->slots[i])
        i = (i + 1) & mask;
    f->slots[i] = place;
}

/* Makes room for `count` more. The old table stays where it is, unused: all of them together take
 * as much as the last. */
static bool reserve_slots(struct forest *f, uint32_t count)
{
    if (f->slot_used + count <= f->slot_room)
        return true;
    uint32_t *old = f->slots, bits = 64 - f->slot_shift;
    if (bits >= 31 || !take_slots(f, bits + 1))
        return false;
    for (uint32_t i = 0; i < UINT32_C(1) << bits; i++)
        if (old[i])
            put_in_table(f, old[i]);
    return true;
}

static struct forest_node *take_node(struct forest *f)
{
    if (!f->chunk || f->chunk->count == FOREST_CHUNK_NODES) {
        struct forest_chunk *chunk =
            f->memory->take(f->memory, NODES_START + (size_t)f->node_bytes * FOREST_CHUNK_NODES);
        if (!chunk)
            return NULL;
        chunk->next = f->chunk ? place_of(f, f->chunk) : 0;
        f->chunk = chunk;
    }
    return (struct forest_node *)(void *)((uint8_t *)f->chunk->nodes +
                                          (size_t)f->chunk->count * f->node_bytes);
}

/* Reserves a slot if a new child of `above` belongs into the table. The children of a node are
 * moved there when its list is full. False when there is no memory. */
static bool reserve_in_table(struct forest *f, struct forest_node *above, bool *in_table)
{
    uint32_t listed = 0;
    *in_table = true;
    if (!above || (f->options.layout == FOREST_HASHED && above->first == FOREST_CROWDED))
        return reserve_slots(f, 1);
    *in_table = false;
    if (f->options.layout != FOREST_HASHED)
        return true;
    for (uint32_t child = above->first; child; child = forest_at(f, child)->next)
        listed++;
    if (listed < LISTED_MAX)
        return true;
    *in_table = true;
    if (!reserve_slots(f, listed + 1))
        return false;
    for (uint32_t child = above->first; child; child = forest_at(f, child)->next)
        put_in_table(f, child);
    f->slot_used += listed;
    above->first = FOREST_CROWDED;
    return true;
}

uint32_t forest_add(struct forest *f, uint32_t parent, uint32_t label, uint32_t key)
{
    struct forest_node *above = parent ? forest_at(f, parent) : NULL;
    bool in_table;
    uint32_t children = 0;
    /* Everything that can fail comes before the node is linked. */
    if (f->options.layout == FOREST_INDEXED) {
        size_t bytes = (size_t)f->options.degrees[label] * sizeof(uint32_t);
        void *array = f->memory->take(f->memory, (bytes + 15) & ~(size_t)7);
        if (!array)
            return 0;
        children = place_of(f, array);
    }
    struct forest_node *node = take_node(f);
    if (!node || !reserve_in_table(f, above, &in_table))
        return 0;
    node->label = label;
    node->parent = parent;
    node->level = above ? above->level + 1 : 0;
    node->first = children;
    uint32_t place = place_of(f, node);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    f->chunk->count++; /* complete from here on */
    f->node_count++;
    if (in_table) {
        put_in_table(f, place);
        f->slot_used++;
    } else if (f->options.layout == FOREST_INDEXED) {
        ((uint32_t *)(void *)forest_at(f, above->first))[key] = place;
    } else {
        node->next = above->first;
        above->first = place;
    }
    return place;
}

/* The number of a node in its parent's array. */
static uint32_t key_of(const struct forest *f, const struct forest_node *node, uint32_t place)
{
    const struct forest_node *above = forest_at(f, node->parent);
    const uint32_t *array = (const uint32_t *)(const void *)forest_at(f, above->first);
    uint32_t key = 0;
    while (array[key] != place)
        key++;
    return key;
}

/*
 * The twin is a child of the parent's twin, and that of a node at level k is the root of a tree. So
 * goes up to the first node whose twin is known, and down again: meanwhile `twin` is the way down.
 */
uint32_t forest_add_twin(struct forest *f, uint32_t place)
{
    uint32_t at = place, below = 0, twin = 0;
    enum forest_layout layout = f->options.layout;
    for (;;) {
        struct forest_node *node = forest_at(f, at);
        if (node->twin) {
            twin = node->twin;
            break;
        }
        node->twin = below;
        below = at;
        if (node->level == f->options.k)
            break;
        at = node->parent;
    }
    while (below) {
        struct forest_node *node = forest_at(f, below);
        uint32_t next = node->twin;
        if (node->level == f->options.k)
            twin = forest_root(f, node->label);
        else if (twin)
            twin = forest_child(f, layout, twin, node->label,
                                layout == FOREST_INDEXED ? key_of(f, node, below) : 0);
        node->twin = twin; /* 0 if there is no memory: for all below, too */
        below = next;
    }
    return twin;
}
