/*
 * A thread's functions, edges and entries, and how they are found. All memory is of the thread: the
 * arrays have address space for as many as there may be, and use what they need.
 */
#include "arch/x86_64/syscall.h"
#include "runtime/encode/encode.h"

#include <sys/mman.h>

enum { MOST_FUNCTIONS = 1 << 17, MOST_EDGES = 1 << 18, FIRST_ROOM = 1 << 10 };

static void *map_memory(uint64_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

static void unmap_memory(void *memory, uint64_t bytes)
{
    if (memory)
        raw_syscall3(SYS_munmap, (long)memory, (long)bytes, 0);
}

static uint64_t index_bytes(uint32_t room)
{
    return sizeof(struct index) + (uint64_t)room * sizeof(uint32_t);
}

static struct index *index_new(uint32_t room)
{
    struct index *index = map_memory(index_bytes(room));
    if (index)
        index->room = room;
    return index;
}

static void index_free(struct index *index)
{
    while (index) {
        struct index *before = index->before;
        unmap_memory(index, index_bytes(index->room));
        index = before;
    }
}

static void index_put(struct index *index, uint32_t hash, uint32_t item)
{
    uint32_t mask = index->room - 1, i = hash & mask;
    while (index->items[i])
        i = (i + 1) & mask;
    index->items[i] = item;
    index->count++;
}

/* Adds one, where there is room: items are never taken out. */
static bool index_add(struct contexts *c, struct index **index, uint32_t item,
                      uint32_t (*hash)(const struct contexts *, uint32_t))
{
    struct index *now = *index;
    if (now->count >= now->room / 2) {
        struct index *larger = now->room < UINT32_MAX / 4 ? index_new(now->room * 4) : NULL;
        if (!larger)
            return false;
        for (uint32_t i = 0; i < now->room; i++)
            if (now->items[i])
                index_put(larger, hash(c, now->items[i]), now->items[i]);
        larger->before = now;
        *index = now = larger;
    }
    index_put(now, hash(c, item), item);
    return true;
}

static uint32_t key_hash(uint64_t key)
{
    return entry_hash(key, 0);
}

static uint32_t hash_function(const struct contexts *c, uint32_t item)
{
    return key_hash(c->graph.functions[item - 1].key);
}

static uint32_t hash_edge(const struct contexts *c, uint32_t item)
{
    const struct graph_edge *e = &c->graph.edges[item - 1];
    return edge_hash(e->site_key, e->callee);
}

static uint32_t hash_entry(const struct contexts *c, uint32_t item)
{
    const struct entry *e = entry_at(c, item);
    return entry_hash(e->caller, e->edge);
}

bool contexts_begin(struct contexts *c)
{
    struct graph *g = &c->graph;
    *c = (struct contexts){.entry_count = 1};
    c->functions = index_new(FIRST_ROOM);
    c->edges = index_new(FIRST_ROOM);
    c->entries = index_new(FIRST_ROOM);
    c->chunks[0] = map_memory(CHUNK_ENTRIES * sizeof(struct entry));
    g->functions = map_memory(MOST_FUNCTIONS * sizeof *g->functions);
    g->edges = map_memory(MOST_EDGES * sizeof *g->edges);
    g->order = map_memory(2 * MOST_FUNCTIONS * sizeof *g->order);
    g->stack = g->order + MOST_FUNCTIONS;
    g->function_room = MOST_FUNCTIONS;
    g->edge_room = MOST_EDGES;
    g->ids = 1;
    if (c->functions && c->edges && c->entries && c->chunks[0] && g->functions && g->edges &&
        g->order)
        return true;
    contexts_end(c);
    return false;
}

void contexts_end(struct contexts *c)
{
    struct graph *g = &c->graph;
    index_free(c->functions);
    index_free(c->edges);
    index_free(c->entries);
    for (unsigned i = 0; i < MOST_CHUNKS; i++)
        unmap_memory(c->chunks[i], CHUNK_ENTRIES * sizeof(struct entry));
    unmap_memory(g->functions, MOST_FUNCTIONS * sizeof *g->functions);
    unmap_memory(g->edges, MOST_EDGES * sizeof *g->edges);
    unmap_memory(g->order, 2 * MOST_FUNCTIONS * sizeof *g->order);
}

uint32_t contexts_function(struct contexts *c, uint64_t key)
{
    const struct index *index = c->functions;
    uint32_t mask = index->room - 1;
    for (uint32_t i = key_hash(key) & mask; index->items[i]; i = (i + 1) & mask)
        if (c->graph.functions[index->items[i] - 1].key == key)
            return index->items[i] - 1;
    uint32_t number = graph_add_function(&c->graph, key);
    if (number != GRAPH_NONE && !index_add(c, &c->functions, number + 1, hash_function))
        return GRAPH_NONE; /* it stays, and no lookup finds it */
    return number;
}

uint32_t contexts_edge(struct contexts *c, const struct graph_edge *like)
{
    uint32_t number =
        edge_find(c, c->edges, like->site_key, like->caller, like->callee, like->site);
    if (number != GRAPH_NONE)
        return number;
    number = graph_add_edge(&c->graph, like);
    if (number != GRAPH_NONE && !index_add(c, &c->edges, number + 1, hash_edge))
        return GRAPH_NONE;
    return number;
}

uint32_t contexts_entry(struct contexts *c, uint64_t caller, uint32_t edge)
{
    uint32_t number = entry_find(c, c->entries, caller, edge);
    if (number)
        return number;
    number = c->entry_count;
    uint32_t chunk = number / CHUNK_ENTRIES;
    if (chunk == MOST_CHUNKS)
        return 0;
    if (!c->chunks[chunk])
        c->chunks[chunk] = map_memory(CHUNK_ENTRIES * sizeof(struct entry));
    if (!c->chunks[chunk])
        return 0;
    struct entry *e = entry_at(c, number);
    *e = (struct entry){.caller = caller, .edge = edge, .depth = 1};
    if (word_entry(caller))
        e->depth += entry_at(c, word_entry(caller))->depth;
    if (!index_add(c, &c->entries, number, hash_entry))
        return 0;
    c->entry_count++;
    return number;
}

/* --- words ------------------------------------------------------------------------------------ */

uint64_t word_enter(struct contexts *c, uint64_t caller, uint32_t edge, bool *is_pushed)
{
    const struct graph_edge *e = &c->graph.edges[edge];
    *is_pushed = false;
    if (e->flags & EDGE_LEAF)
        return 0;
    *is_pushed =
        !(e->flags & EDGE_CODED) || !graph_has(&c->graph.functions[e->caller], word_id(caller));
    if (!*is_pushed)
        return caller + ((uint64_t)graph_step(&c->graph, e) << 32);
    uint32_t entry = contexts_entry(c, caller, edge);
    const struct graph_function *callee = &c->graph.functions[e->callee];
    return entry ? word_make(callee->numbers ? callee->base : 0, entry) : 0;
}

struct left word_leave(const struct contexts *c, uint64_t word)
{
    struct left left = {.edge = GRAPH_NONE};
    uint32_t function = word_function(c, word), entry = word_entry(word);
    if (function == GRAPH_NONE || entry >= c->entry_count)
        return left;
    /* No coded edge leads back to where the path began. */
    const struct entry *e = entry ? entry_at(c, entry) : NULL;
    if (function == (e ? c->graph.edges[e->edge].callee : ROOT_FUNCTION))
        return e ? (struct left){e->edge, entry, e->caller} : left;
    uint32_t id = 0;
    left.edge = graph_entered_by(&c->graph, function, word_id(word), &id);
    left.caller = word_make(id, entry);
    return left;
}
