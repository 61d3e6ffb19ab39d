#include "base/key_set.h"

#include "base/strings.h"

#include <string.h>

void key_set_init(struct key_set *set, size_t key_size)
{
    *set = (struct key_set){.key_size = key_size};
}

void key_set_free(struct key_set *set)
{
    vec_free(&set->keys);
    free(set->slots);
    *set = (struct key_set){0};
}

const void *key_set_get(const struct key_set *set, uint32_t number)
{
    return set->keys.items + number * set->key_size;
}

/* The slot that holds the key, or the free one where it belongs. */
static uint32_t *find_slot(const struct key_set *set, const void *key)
{
    size_t at = hash_bytes(key, set->key_size) & (set->slot_count - 1);
    while (set->slots[at] && memcmp(key_set_get(set, set->slots[at] - 1), key, set->key_size) != 0)
        at = (at + 1) & (set->slot_count - 1);
    return &set->slots[at];
}

bool key_set_find(const struct key_set *set, const void *key, uint32_t *number)
{
    uint32_t found = set->count ? *find_slot(set, key) : 0;
    *number = found - 1;
    return found != 0;
}

static void grow_slots(struct key_set *set)
{
    free(set->slots);
    set->slot_count = set->slot_count ? set->slot_count * 2 : 64;
    set->slots = must_calloc(set->slot_count, sizeof *set->slots);
    for (uint32_t i = 0; i < set->count; i++)
        *find_slot(set, key_set_get(set, i)) = i + 1;
}

uint32_t key_set_add(struct key_set *set, const void *key)
{
    if ((size_t)(set->count + 1) * 2 > set->slot_count)
        grow_slots(set);
    uint32_t *slot = find_slot(set, key);
    if (!*slot) {
        vec_reserve(&set->keys, set->keys.count + set->key_size);
        memcpy(set->keys.items + set->keys.count, key, set->key_size);
        set->keys.count += set->key_size;
        *slot = ++set->count;
    }
    return *slot - 1;
}
