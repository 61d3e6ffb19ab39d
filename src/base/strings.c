#include "base/strings.h"

#include <stdio.h>
#include <string.h>

uint64_t hash_bytes(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    return h * UINT64_C(0x9e3779b97f4a7c15);
}

void strings_init(struct string_pool *pool)
{
    *pool = (struct string_pool){0};
    vec_push(&pool->bytes, '\0');
    pool->slot_count = 64;
    pool->slots = must_calloc(pool->slot_count, sizeof *pool->slots);
}

void strings_free(struct string_pool *pool)
{
    vec_free(&pool->bytes);
    free(pool->slots);
    *pool = (struct string_pool){0};
}

const char *strings_get(const struct string_pool *pool, uint32_t offset)
{
    return offset < pool->bytes.count ? pool->bytes.items + offset : "";
}

static size_t find_slot(const struct string_pool *pool, const char *text, size_t length)
{
    size_t mask = pool->slot_count - 1;
    size_t i = (size_t)(hash_bytes(text, length) >> 16) & mask;
    while (pool->slots[i] && strcmp(pool->bytes.items + pool->slots[i], text) != 0)
        i = (i + 1) & mask;
    return i;
}

static void grow(struct string_pool *pool)
{
    uint32_t *old = pool->slots;
    size_t old_count = pool->slot_count;
    pool->slot_count *= 2;
    pool->slots = must_calloc(pool->slot_count, sizeof *pool->slots);
    for (size_t i = 0; i < old_count; i++) {
        if (old[i]) {
            const char *text = pool->bytes.items + old[i];
            pool->slots[find_slot(pool, text, strlen(text))] = old[i];
        }
    }
    free(old);
}

uint32_t strings_add(struct string_pool *pool, const char *text)
{
    size_t length = strlen(text);
    if (!length)
        return 0;
    size_t slot = find_slot(pool, text, length);
    if (pool->slots[slot])
        return pool->slots[slot];
    if (pool->bytes.count + length + 1 > UINT32_MAX) {
        fputs("calltrail: more than 4 GB of names\n", stderr);
        exit(1);
    }
    uint32_t offset = (uint32_t)pool->bytes.count;
    vec_reserve(&pool->bytes, pool->bytes.count + length + 1);
    memcpy(pool->bytes.items + offset, text, length + 1);
    pool->bytes.count += length + 1;
    pool->slots[slot] = offset;
    if (++pool->used * 2 > pool->slot_count)
        grow(pool);
    return offset;
}
