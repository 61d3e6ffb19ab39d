#include "runtime/cct.h"

#include "runtime/arena.h"
#include "runtime/guest.h"

enum { FIRST_SLOTS = 512 };

/*
 * Of the whole path, from the hash of the parent's: where a path may lie in the table is known
 * before any of its nodes has been looked at.
 */
static uint32_t hash_of(uint32_t parent_hash, uint64_t key)
{
    uint64_t h = (key ^ parent_hash * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    return (uint32_t)(h >> 32);
}

static uint32_t find_slot(const struct cct *t, uint32_t parent, uint64_t key, uint32_t hash)
{
    uint32_t mask = t->slot_count - 1, i = hash & mask;
    for (; t->slots[i]; i = (i + 1) & mask) {
        const struct arena_node *node = arena_at(t->slots[i]);
        if (node->key == key && node->parent == parent)
            break;
    }
    return i;
}

/* The old table stays in the arena, unused: a third of what the nodes themselves take, in all. */
static bool grow(struct cct *t)
{
    uint32_t count = t->slot_count * 4, mask = count - 1;
    uint32_t *slots = arena_take(count * sizeof *slots);
    if (!slots)
        return false;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (!t->slots[i])
            continue;
        uint32_t k = ((const struct arena_node *)arena_at(t->slots[i]))->hash & mask;
        while (slots[k])
            k = (k + 1) & mask;
        slots[k] = t->slots[i];
    }
    t->slots = slots;
    t->slot_count = count;
    return true;
}

static uint32_t add_node(struct cct *t, uint32_t parent, uint64_t key, uint32_t hash)
{
    if (!t->chunk || t->chunk->count == chunk_nodes(guest->arena->node_bytes)) {
        struct arena_chunk *chunk = arena_take(chunk_bytes(guest->arena->node_bytes));
        if (!chunk)
            return 0;
        chunk->next = t->thread->first_chunk;
        t->thread->first_chunk = arena_place(chunk);
        t->chunk = chunk;
    }
    struct arena_node *node = chunk_node(t->chunk, guest->arena->node_bytes, t->chunk->count);
    node->key = key;
    node->parent = parent;
    node->hash = hash;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    t->chunk->count++; /* complete from here on */
    t->node_count++;
    return arena_place(node);
}

bool cct_begin(struct cct *t, struct arena_thread *thread)
{
    uint32_t *slots = t->slots; /* of an earlier try, for which there was room for no more */
    *t = (struct cct){.thread = thread, .slots = slots, .slot_count = FIRST_SLOTS};
    if (!slots)
        t->slots = arena_take(FIRST_SLOTS * sizeof *t->slots);
    if (!t->slots)
        return false;
    thread->root = add_node(t, 0, KEY_MAKE(0, KEY_ROOT, 0), 0);
    return thread->root != 0;
}

static uint32_t child(struct cct *t, uint32_t parent, uint64_t key, uint32_t hash)
{
    uint32_t slot = find_slot(t, parent, key, hash);
    if (t->slots[slot])
        return t->slots[slot];
    if (t->node_count * 4 >= t->slot_count * 3) {
        if (!grow(t))
            return 0;
        slot = find_slot(t, parent, key, hash);
    }
    return t->slots[slot] = add_node(t, parent, key, hash);
}

uint32_t cct_child(struct cct *t, uint32_t parent, uint64_t key)
{
    return child(t, parent, key, hash_of(((const struct arena_node *)arena_at(parent))->hash, key));
}

/*
 * When a sample comes, the program has long had the caches for itself: what costs time is waiting
 * for memory. So all slots are asked for at once, then all nodes, and only then looked at.
 */
uint32_t cct_path(struct cct *t, uint32_t node, const uint64_t *keys, uint32_t count,
                  uint32_t *nodes)
{
    uint32_t hashes[CCT_PATH_MOST], mask = t->slot_count - 1;
    uint32_t hash = ((const struct arena_node *)arena_at(node))->hash;
    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = hash = keys[i] ? hash_of(hash, keys[i]) : hash;
        __builtin_prefetch(&t->slots[hash & mask]);
    }
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(arena_at(t->slots[hashes[i] & mask]));
    for (uint32_t i = 0; i < count && node; i++) {
        if (keys[i])
            node = child(t, node, keys[i], hashes[i]);
        nodes[i] = node;
    }
    return node;
}

void cct_want(const struct cct *t, uint32_t nodes)
{
    struct arena_header *arena = guest->arena;
    uint64_t most = (uint64_t)t->node_count + nodes;
    /* Each node, and the slots: twice as many as nodes, and all smaller tables before. */
    uint64_t slots_bytes = most * 4 > t->slot_count * UINT64_C(3) ? most * 4 * sizeof *t->slots : 0;
    uint64_t wanted = arena->used + nodes * (uint64_t)arena->node_bytes + slots_bytes;
    if (wanted > arena->wanted)
        arena->wanted = wanted;
}
