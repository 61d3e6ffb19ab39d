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

void free_grown(struct grown_tree *g)
{
    vec_free(&g->items);
    vec_free(&g->values);
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
    if (!t->first_chunk)
        return;
    struct node_list list = {0};
    VEC(uint32_t) indices = {0};
    grown_root(g);
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
