#include "record/grow.h"

#include "base/strings.h"
#include "profile/profile.h"

static uint32_t *grown_slot(const struct grown_tree *g, uint32_t parent, uint64_t key)
{
    struct {
        uint64_t key, parent;
    } both = {key, parent};
    size_t i = hash_bytes(&both, sizeof both) >> 20 & (g->room - 1);
    while (g->slots[i] && (g->items.items[g->slots[i] - 1].parent != parent ||
                           g->items.items[g->slots[i] - 1].key != key))
        i = (i + 1) & (g->room - 1);
    return &g->slots[i];
}

uint32_t grown_child(struct grown_tree *g, uint32_t parent, uint64_t key)
{
    if (g->items.count * 2 >= g->room) {
        size_t room = g->room ? g->room * 2 : 256;
        free(g->slots);
        g->slots = must_calloc(room, sizeof *g->slots);
        g->room = room;
        for (size_t i = 0; i < g->items.count; i++)
            *grown_slot(g, g->items.items[i].parent, g->items.items[i].key) = (uint32_t)i + 1;
    }
    uint32_t *slot = grown_slot(g, parent, key);
    if (!*slot) {
        vec_push(&g->items, (struct grown_node){.key = key, .parent = parent});
        *slot = (uint32_t)g->items.count;
    }
    return *slot - 1;
}

void free_grown(struct grown_tree *g)
{
    vec_free(&g->items);
    free(g->slots);
}

/* Nodes of one thread, oldest first, which is in order of their places: parents before children. */
struct node_list {
    VEC(const struct arena_node *) items;
};

static void list_nodes(const struct arena_view *v, const struct arena_thread *t,
                       uint32_t node_bytes, struct node_list *out)
{
    VEC(const struct arena_chunk *) chunks = {0};
    const struct arena_chunk *k;
    VIEW_EACH_OF(v, t->first_chunk, k, chunk_bytes(node_bytes)) {
        vec_push(&chunks, k);
    }
    out->items.count = 0;
    for (size_t i = chunks.count; i-- > 0;) {
        uint32_t count = chunks.items[i]->count;
        for (uint32_t n = 0; n < count && n < chunk_nodes(node_bytes); n++)
            vec_push(&out->items, chunk_node(chunks.items[i], node_bytes, n));
    }
    vec_free(&chunks);
}

static uint32_t index_of(const struct arena_view *v, const struct node_list *list, uint32_t place,
                         size_t before)
{
    const void *wanted = v->bytes + (uint64_t)place * 8;
    size_t low = 0, high = before;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((const void *)list->items.items[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < before && (const void *)list->items.items[low] == wanted ? (uint32_t)low
                                                                          : CTP_NONE;
}

void grow_samples(struct grown_tree *g, const struct arena_view *v, const struct arena_thread *t,
                  uint32_t node_bytes)
{
    struct node_list list = {0};
    VEC(uint32_t) indices = {0};
    list_nodes(v, t, node_bytes, &list);
    for (size_t i = 0; i < list.items.count; i++) {
        const struct arena_node *n = list.items.items[i];
        uint32_t parent = i ? index_of(v, &list, n->parent, i) : CTP_NONE;
        uint32_t index =
            i ? grown_child(g, parent == CTP_NONE ? 0 : indices.items[parent], n->key) : 0;
        g->items.items[index].measured = n;
        vec_push(&indices, index);
    }
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
        samples += guessed[i] && n->measured ? n->measured->count : 0;
    }
    free(guessed);
    return samples;
}

void record_tables_begin(struct record_tables *tables, const struct arena_view *v, bool heights)
{
    size_t room = v->size / ARENA_RECORD_ALIGN + 1;
    tables->room = room;
    tables->nodes = must_calloc(room, sizeof *tables->nodes);
    tables->outermost = heights ? must_calloc(room, sizeof *tables->outermost) : NULL;
}

void record_tables_end(struct record_tables *tables)
{
    free(tables->nodes);
    free(tables->outermost);
    *tables = (struct record_tables){0};
}

/* Where a record stands in the tables; of a place that is none, 0, where nothing ever is. */
static size_t number_of(const struct record_tables *tables, uint32_t place)
{
    size_t number = (size_t)place * 8 / ARENA_RECORD_ALIGN;
    return number < tables->room ? number : 0;
}

/* The height of a record's slot above that of the outermost one; 0: not known. */
static uint32_t height_of(struct record_tables *tables, const struct arena_record *r, size_t number)
{
    uint32_t outermost = tables->outermost[number_of(tables, r->parent)];
    tables->outermost[number] = outermost ? outermost : r->slot;
    return outermost && r->slot ? outermost - r->slot : 0;
}

/*
 * A record's own node is its function's entry; what it calls hangs below the node of the place from
 * where it calls, as the frames of a walked stack do.
 */
static void add_calls(struct grown_tree *g, struct record_tables *tables,
                      const struct arena_record *r, uint32_t place, uint64_t count)
{
    size_t number = number_of(tables, place);
    uint32_t above = tables->nodes[number_of(tables, r->parent)];
    above = above > tables->first ? above - tables->first - 1 : 0; /* of another thread: no word */
    uint32_t caller = r->site ? grown_child(g, above, r->site) : above;
    uint32_t node = r->callee ? grown_child(g, caller, r->callee) : caller;
    bool is_gap = r->callee && (KEY_FLAGS(r->callee) & KEY_GAP);
    tables->nodes[number] = tables->first + (is_gap ? node : caller) + 1;
    g->calls += count;
    g->records++;
    uint32_t height = tables->outermost ? height_of(tables, r, number) : 0;
    if (r->callee) {
        struct grown_node *n = &g->items.items[node];
        /* Several records of one context: of a function that was bound after its first call. */
        n->height_varies |= (r->flags & RECORD_VARIES) || (n->calls && n->height != height);
        n->height = height;
        n->calls += count;
    }
}

static uint64_t calls_of(const struct arena_view *v, const struct arena_record *r, uint64_t offset)
{
    if (!v->before.bytes || offset + sizeof *r > v->before.size)
        return r->count;
    const struct arena_record *then = (const void *)(v->before.bytes + offset);
    return r->count > then->count ? r->count - then->count : 0;
}

/* What the calls of bursts stand for: all calls of the thread. */
static uint64_t all_calls(const struct arena_thread *t, uint64_t calls)
{
    const struct exact_counts *counts = exact_counts_in(t);
    if (!counts->calls_in_bursts)
        return calls;
    double scale = 1 + (double)counts->calls_between / (double)counts->calls_in_bursts;
    double scaled = (double)calls * scale;
    return scaled < 0x1p62 ? (uint64_t)(scaled + 0.5) : calls;
}

void grow_calls(struct grown_tree *g, const struct arena_view *v, const struct arena_thread *t,
                struct record_tables *tables)
{
    VEC(const struct arena_record_chunk *) chunks = {0};
    uint64_t left = v->size / ARENA_RECORD_ALIGN;
    const struct arena_record_chunk *k;
    VIEW_EACH(v, exact_counts_in(t)->first_record_chunk, k) {
        vec_push(&chunks, k);
    }
    for (size_t i = chunks.count; i-- > 0;) {
        uint64_t start =
            (uint64_t)((const char *)chunks.items[i] - v->bytes) + chunks.items[i]->start;
        uint32_t used = chunks.items[i]->used, room = chunks.items[i]->room;
        uint64_t end = start + (used < room ? used : room);
        const struct arena_record *r;
        for (uint64_t next = start;
             next < end && left-- && (r = view_at(v, (uint32_t)(next / 8), sizeof *r));
             next += r->is_made ? arena_record_bytes(r->site_count) : ARENA_RECORD_ALIGN)
            if (r->is_made) /* or its bytes were taken, and it was never made */
                add_calls(g, tables, r, (uint32_t)(next / 8), all_calls(t, calls_of(v, r, next)));
    }
    vec_free(&chunks);
    tables->first += (uint32_t)g->items.count;
}
