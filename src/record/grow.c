#include "record/grow.h"

#include "base/search.h"
#include "base/strings.h"
#include "profile/profile.h"

/*
 * The slot of a node: its index plus one, or 0. Trees are made from end to end, so children are
 * looked for where their parents' neighbours were, and the first slots to look at are near those of
 * the parents before it: what is in use stays in the processor's caches. Where a node has so many
 * children that these are taken, the rest is spread over the whole table.
 */
enum { NEAR = 64, TRIES_NEAR = 8 };

static uint64_t slot_hash(uint32_t parent, uint64_t key)
{
    uint64_t hash = (key ^ (uint64_t)parent << 40) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static size_t first_slot(const struct grown_tree *g, uint32_t parent, uint64_t key)
{
    return ((size_t)parent * 2 + slot_hash(parent, key) % NEAR) & (g->room - 1);
}

static uint32_t *grown_slot(const struct grown_tree *g, uint32_t parent, uint64_t key)
{
    const size_t mask = g->room - 1;
    uint64_t hash = slot_hash(parent, key);
    size_t i = first_slot(g, parent, key);
    for (unsigned tries = 1; g->slots[i]; tries++) {
        const struct grown_node *n = &g->items.items[g->slots[i] - 1];
        if (n->key == key && n->parent == parent)
            break;
        i = (tries == TRIES_NEAR ? hash * UINT64_C(0x9e3779b97f4a7c15) >> 16 : i + 1) & mask;
    }
    return &g->slots[i];
}

static void make_slots(struct grown_tree *g, size_t room)
{
    free(g->slots);
    g->slots = must_calloc(room, sizeof *g->slots);
    g->room = room;
    for (size_t i = 0; i < g->items.count; i++)
        *grown_slot(g, g->items.items[i].parent, g->items.items[i].key) = (uint32_t)i + 1;
}

void grown_reserve(struct grown_tree *g, size_t nodes)
{
    size_t room = 256;
    while (room < nodes * 2)
        room *= 2;
    if (room > g->room)
        make_slots(g, room);
    vec_reserve(&g->items, nodes);
    vec_reserve(&g->values, nodes * g->columns);
}

uint32_t grown_child(struct grown_tree *g, uint32_t parent, uint64_t key)
{
    if (g->items.count * 2 >= g->room)
        make_slots(g, g->room ? g->room * 2 : 256);
    uint32_t *slot = grown_slot(g, parent, key);
    if (!*slot) {
        vec_push(&g->items, (struct grown_node){.key = key, .parent = parent});
        for (uint32_t i = 0; i < g->columns; i++)
            vec_push(&g->values, 0);
        *slot = (uint32_t)g->items.count;
    }
    return *slot - 1;
}

void grown_root(struct grown_tree *g)
{
    grown_child(g, CTP_NONE, KEY_MAKE(0, KEY_ROOT, 0));
}

void grown_ends(struct grown_tree *g)
{
    free(g->slots);
    g->slots = NULL;
    g->room = 0;
}

void free_grown(struct grown_tree *g)
{
    vec_free(&g->items);
    vec_free(&g->measured);
    vec_free(&g->perf);
    vec_free(&g->values);
    free(g->slots);
}

static void set_measured(struct grown_tree *g, uint32_t node, const struct arena_node *measured)
{
    while (g->measured.count <= node)
        vec_push(&g->measured, NULL);
    g->measured.items[node] = measured;
}

void grown_set_perf(struct grown_tree *g, uint32_t node, const uint64_t *values)
{
    while (g->perf.count <= node)
        vec_push(&g->perf, NULL);
    g->perf.items[node] = values;
}

/* Nodes of one thread, oldest first, which is in order of their places: parents before children. */
struct node_list {
    VEC(const struct arena_node *) items;
    VEC(struct node_run {
        const char *start; /* of the nodes of one chunk, */
        uint32_t first;    /* whose first one has this index */
    })
    runs;
};

static void list_nodes(const struct arena_view *v, const struct arena_thread *t,
                       uint32_t node_bytes, uint64_t *bytes_left, struct node_list *out)
{
    const uint64_t bytes = chunk_bytes(node_bytes);
    VEC(const struct arena_chunk *) chunks = {0};
    const struct arena_chunk *k;
    VIEW_EACH_OF(v, t->first_chunk, k, bytes) {
        if (*bytes_left < bytes)
            break;
        *bytes_left -= bytes;
        vec_push(&chunks, k);
    }
    for (size_t i = chunks.count; i-- > 0;) {
        uint32_t count = chunks.items[i]->count;
        vec_push(&out->runs,
                 ((struct node_run){(const void *)chunk_node(chunks.items[i], node_bytes, 0),
                                    (uint32_t)out->items.count}));
        for (uint32_t n = 0; n < count && n < chunk_nodes(node_bytes); n++)
            vec_push(&out->items, chunk_node(chunks.items[i], node_bytes, n));
    }
    vec_free(&chunks);
}

/* The index of the node at a place; CTP_NONE: there is none before that one. */
static uint32_t index_of(const struct arena_view *v, const struct node_list *list,
                         uint32_t node_bytes, uint32_t place, size_t before)
{
    const char *wanted = (const char *)v->bytes + (uint64_t)place * 8;
    size_t i;
    SEARCH(i, list->runs.count, list->runs.items[i].start <= wanted);
    if (i == 0)
        return CTP_NONE;
    const struct node_run *run = &list->runs.items[i - 1];
    uint64_t away = (uint64_t)(wanted - run->start), index = run->first + away / node_bytes;
    uint64_t end = i < list->runs.count ? run[1].first : list->items.count;
    return away % node_bytes == 0 && index < end && index < before ? (uint32_t)index : CTP_NONE;
}

/* Soon the child of this parent is looked for: where that begins is fetched from memory. */
static void fetch_slot(const struct grown_tree *g, uint32_t parent, uint64_t key)
{
    if (g->room)
        __builtin_prefetch(&g->slots[first_slot(g, parent, key)]);
}

/*
 * Without nodes that are twice there, which only a damaged arena has, a node has the index in the
 * tree that it has in the list: good enough to fetch what will be needed.
 */
void grow_samples(struct grown_tree *g, const struct arena_view *v, const struct arena_thread *t,
                  uint32_t node_bytes, uint64_t *bytes_left)
{
    enum { AHEAD = 8, PROGRESS_NODES = 1 << 16 };
    if (!t->first_chunk)
        return;
    struct node_list list = {0};
    VEC(uint32_t) parents = {0}, indices = {0};
    grown_root(g);
    list_nodes(v, t, node_bytes, bytes_left, &list);
    const size_t count = list.items.count;
    grown_reserve(g, g->items.count + count);
    vec_reserve(&parents, count);
    vec_reserve(&indices, count);
    for (size_t i = 0; i < count + AHEAD; i++) {
        if (i < count) {
            const struct arena_node *n = list.items.items[i];
            uint32_t parent = i ? index_of(v, &list, node_bytes, n->parent, i) : CTP_NONE;
            vec_push(&parents, parent);
            fetch_slot(g, parent == CTP_NONE ? 0 : parent, n->key);
        }
        if (i < AHEAD || i - AHEAD >= count)
            continue;
        size_t k = i - AHEAD;
        const struct arena_node *n = list.items.items[k];
        uint32_t parent = parents.items[k] == CTP_NONE ? 0 : indices.items[parents.items[k]];
        uint32_t index = k ? grown_child(g, parent, n->key) : 0;
        set_measured(g, index, n);
        vec_push(&indices, index);
        if (indices.count % PROGRESS_NODES == 0)
            grown_progress(g, (uint64_t)PROGRESS_NODES * node_bytes);
    }
    grown_progress(g, (uint64_t)(count % PROGRESS_NODES) * node_bytes);
    vec_free(&parents);
    vec_free(&list.runs);
    vec_free(&indices);
    vec_free(&list.items);
}

uint64_t grown_guessed(const struct grown_tree *g)
{
    uint64_t samples = 0;
    bool *guessed = must_calloc(g->items.count, sizeof *guessed);
    for (size_t i = 0; i < g->items.count; i++) {
        const struct grown_node *n = &g->items.items[i];
        guessed[i] = (i && guessed[n->parent]) || (KEY_FLAGS(n->key) & KEY_GUESSED);
        const struct arena_node *measured = grown_measured(g, i);
        samples += guessed[i] && measured ? measured->count : 0;
    }
    free(guessed);
    return samples;
}
