#include "exact_contexts.h"

#include <string.h>

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint32_t *find(const struct contexts *contexts, const struct context *like)
{
    uint64_t h = mix(mix(mix(like->is_tail, like->parent), like->site), like->function);
    uint32_t at = (uint32_t)h & (contexts->slot_count - 1);
    for (;; at = (at + 1) & (contexts->slot_count - 1)) {
        uint32_t *slot = &contexts->slots[at];
        const struct context *there = &contexts->items.items[*slot];
        if (!*slot || (there->parent == like->parent && there->site == like->site &&
                       there->function == like->function && there->is_tail == like->is_tail))
            return slot;
    }
}

void contexts_begin(struct contexts *contexts)
{
    *contexts = (struct contexts){.slot_count = 1 << 12};
    contexts->slots = must_calloc(contexts->slot_count, sizeof *contexts->slots);
    vec_push(&contexts->items, (struct context){0});
}

void contexts_free(struct contexts *contexts)
{
    vec_free(&contexts->items);
    free(contexts->slots);
}

static void grow(struct contexts *contexts)
{
    free(contexts->slots);
    contexts->slot_count *= 2;
    contexts->slots = must_calloc(contexts->slot_count, sizeof *contexts->slots);
    for (uint32_t i = 1; i < contexts->items.count; i++)
        *find(contexts, &contexts->items.items[i]) = i;
}

uint32_t context_of(struct contexts *contexts, uint32_t parent, uint64_t site, uint64_t function,
                    bool is_tail)
{
    struct context new = {.site = site, .function = function, .parent = parent, .is_tail = is_tail};
    if (contexts->items.count * 2 >= contexts->slot_count)
        grow(contexts);
    uint32_t *slot = find(contexts, &new);
    if (!*slot) {
        *slot = (uint32_t)contexts->items.count;
        vec_push(&contexts->items, new);
    }
    return *slot;
}

uint32_t context_called(const struct contexts *contexts, uint32_t number)
{
    while (contexts->items.items[number].is_tail)
        number = contexts->items.items[number].parent;
    return number;
}

uint32_t context_after_tail(const struct contexts *contexts, uint32_t counted)
{
    const struct context *all = contexts->items.items;
    for (uint32_t at = all[counted].parent;; at = all[at].parent) {
        if (all[at].function == all[counted].function)
            return at;
        if (!all[at].is_tail)
            return counted;
    }
}
