/*
 * Any bytes as a map file: refused, or safe to look things up in and to walk with. The checksums
 * are made right first, so that damage behind them is reached.
 */
#include "map/map.h"
#include "unwind/walk.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend_checksums(uint8_t *bytes, size_t size)
{
    struct map_header h;
    memcpy(&h, bytes, sizeof h);
    h.magic = MAP_MAGIC;
    h.version = MAP_VERSION;
    h.header_size = sizeof h;
    h.file_size = size;
    h.body_hash = XXH3_64bits(bytes + sizeof h, size - sizeof h);
    h.header_hash = 0;
    h.header_hash = XXH3_64bits(&h, sizeof h);
    memcpy(bytes, &h, sizeof h);
}

/* Stack and registers come from the input's bytes too; ASan watches that no read leaves the stack.
 */
static void walk_somewhere(const struct map *map, const uint8_t *bytes, size_t size)
{
    enum { STACK_WORDS = 64, ROOM = 32 };
    static struct walk_cache cache;
    uint64_t *stack = malloc(STACK_WORDS * sizeof *stack);
    struct walk_module module = {0x10000, 0x10000 + map->header->span, 0x10000, &map->tables};
    struct walk_modules modules = {
        .count = 1, .generation = cache.generation + 1, .items = &module};
    for (unsigned round = 0; round < 8; round++) {
        struct walk_registers r;
        uint64_t mix = round * UINT64_C(0x9e3779b97f4a7c15);
        for (unsigned i = 0; i < STACK_WORDS; i++) {
            mix = mix * UINT64_C(6364136223846793005) + bytes[mix % size];
            stack[i] = i & 1 ? 0x10000 + mix % (map->header->span + 1)
                             : (uint64_t)(stack + mix % (STACK_WORDS + 4));
        }
        for (unsigned i = 0; i < X86_COUNT; i++)
            r.value[i] = (uint64_t)(stack + (i + round) % STACK_WORDS);
        r.value[X86_RIP] = stack[1 + 2 * round] - 1;
        struct walk_memory memory = {.start = (uint64_t)stack,
                                     .end = (uint64_t)(stack + STACK_WORDS)};
        struct walk_memory again = memory;
        struct walk_frame plain[ROOM], cached[ROOM];
        struct walk_result a = walk_frames(&modules, &r, &memory, plain, ROOM);
        for (int twice = 0; twice < 2; twice++) {
            struct walk_memory copy = again;
            struct walk_result b = walk_frames_cached(&cache, &modules, &r, &copy, cached, ROOM);
            if (a.count != b.count || a.end != b.end ||
                memcmp(plain, cached, a.count * sizeof *plain) != 0)
                abort();
        }
    }
    free(stack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct map map;
    if (map_from_bytes(data, size, true, &map, NULL) == CT_OK)
        map_find_function(&map, 0);
    if (size <= sizeof(struct map_header))
        return 0;
    uint8_t *bytes = malloc(size);
    memcpy(bytes, data, size);
    mend_checksums(bytes, size);
    if (map_from_bytes(bytes, size, true, &map, NULL) == CT_OK) {
        for (uint64_t offset = 0; offset < map.header->span && offset < 1 << 20; offset += 61) {
            int64_t row = map_find_row(&map.tables, offset);
            if (row >= map.tables.row_count)
                abort();
            if (row >= 0)
                map_spell_rule(&map.tables, (uint32_t)row);
            const struct map_function *f = map_find_function(&map, offset);
            if (f)
                map_string(&map, f->name);
        }
        walk_somewhere(&map, bytes, size);
    }
    free(bytes);
    return 0;
}
