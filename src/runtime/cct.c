#include "runtime/cct.h"

enum { FIRST_SLOTS = 512 };

static uint32_t hash(uint32_t parent, uint64_t key)
{
    uint64_t h = (key ^ parent * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(h >> 32);
}

static uint32_t find_slot(const struct tree *t, uint32_t parent, uint64_t key)
{
    uint32_t mask = t->slot_count - 1, i = hash(parent, key) & mask;
    for (; t->slots[i]; i = (i + 1) & mask) {
        const struct arena_node *node = arena_at(t->slots[i]);
        if (node->key == key && node->parent == parent)
            break;
    }
    return i;
}

/* The old table stays in the arena, unused: a third of what the nodes themselves take, in all. */
static bool grow(struct tree *t)
{
    struct tree bigger = *t;
    bigger.slot_count = t->slot_count * 4;
    bigger.slots = arena_take(bigger.slot_count * sizeof *t->slots);
    if (!bigger.slots)
        return false;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (!t->slots[i])
            continue;
        const struct arena_node *node = arena_at(t->slots[i]);
        bigger.slots[find_slot(&bigger, node->parent, node->key)] = t->slots[i];
    }
    *t = bigger;
    return true;
}

static uint32_t add_node(struct tree *t, uint32_t parent, uint64_t key)
{
    if (!t->chunk || t->chunk->count == ARENA_CHUNK_NODES) {
        struct arena_chunk *chunk = arena_take(sizeof *chunk);
        if (!chunk)
            return 0;
        chunk->next = t->thread->first_chunk;
        t->thread->first_chunk = arena_place(chunk);
        t->chunk = chunk;
    }
    struct arena_node *node = &t->chunk->nodes[t->chunk->count];
    node->key = key;
    node->parent = parent;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->chunk->count++; /* complete from here on */
    t->node_count++;
    return arena_place(node);
}

bool tree_begin(struct tree *t, struct arena_thread *thread)
{
    *t = (struct tree){.thread = thread, .slot_count = FIRST_SLOTS};
    t->slots = arena_take(FIRST_SLOTS * sizeof *t->slots);
    if (!t->slots)
        return false;
    thread->root = add_node(t, 0, KEY_MAKE(0, KEY_ROOT, 0));
    return thread->root != 0;
}

uint32_t tree_child(struct tree *t, uint32_t parent, uint64_t key)
{
    uint32_t slot = find_slot(t, parent, key);
    if (t->slots[slot])
        return t->slots[slot];
    if (t->node_count * 4 >= t->slot_count * 3) {
        if (!grow(t))
            return 0;
        slot = find_slot(t, parent, key);
    }
    return t->slots[slot] = add_node(t, parent, key);
}

void tree_want(const struct tree *t, uint32_t nodes)
{
    struct arena_header *arena = guest->arena;
    uint64_t most = (uint64_t)t->node_count + nodes;
    /* Each node, and the slots: twice as many as nodes, and all smaller tables before. */
    uint64_t slots_bytes = most * 4 > t->slot_count * UINT64_C(3) ? most * 4 * sizeof *t->slots : 0;
    uint64_t wanted = arena->used + nodes * sizeof(struct arena_node) + slots_bytes;
    if (wanted > arena->wanted)
        arena->wanted = wanted;
}
