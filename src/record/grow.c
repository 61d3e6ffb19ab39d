#include "record/grow.h"

#include "base/strings.h"

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
