/*
 * A pool of strings, each kept once. A string is known by its offset; offset 0 is the empty string.
 * The bytes can be written to a file as they are.
 */
#ifndef BASE_STRINGS_H
#define BASE_STRINGS_H

#include "base/vec.h"

#include <stdint.h>

struct string_pool {
    VEC(char) bytes;
    uint32_t *slots; /* open addressing; 0 is free (the empty string is never looked for) */
    size_t slot_count, used;
};

void strings_init(struct string_pool *pool);
void strings_free(struct string_pool *pool);
uint32_t strings_add(struct string_pool *pool, const char *text);
const char *strings_get(const struct string_pool *pool, uint32_t offset);

/* FNV-1a with a final mix: for tables in memory, not for files. */
uint64_t hash_bytes(const void *bytes, size_t size);

#endif
