/*
 * A set of keys of one size, numbered from 0 as they come. Keys are compared byte by byte, so
 * the code that makes one sets its padding too.
 */
#ifndef BASE_KEY_SET_H
#define BASE_KEY_SET_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct key_set {
    size_t key_size;
    uint32_t count;
    VEC(uint8_t) keys;
    uint32_t *slots; /* open addressing; number + 1, 0 is free */
    size_t slot_count;
};

void key_set_init(struct key_set *set, size_t key_size);
void key_set_free(struct key_set *set);

/* The number of a key. It is new, and then has the number `count` had before, or not. */
uint32_t key_set_add(struct key_set *set, const void *key);

/* Whether there is such a key, and its number. */
bool key_set_find(const struct key_set *set, const void *key, uint32_t *number);

/* The key with a number; until the next is added. */
const void *key_set_get(const struct key_set *set, uint32_t number);

#endif
