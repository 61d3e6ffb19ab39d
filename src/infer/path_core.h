/*
 * What a core file tells of where its threads were, when their stacks are gone: the function that
 * ran, and the height of its return address, by the unwind rule of the pc and the slot of the
 * outermost return address. That one lies so high that it mostly survives.
 */
#ifndef INFER_PATH_CORE_H
#define INFER_PATH_CORE_H

#include "elf/core_file.h"
#include "infer/path_map.h"
#include "map/cache.h"

struct path_crash {
    uint32_t tid;
    uint64_t pc;        /* or what was called from, if the pc is not in a file */
    uint32_t function;  /* of the map; CTP_NONE: training did not see it */
    uint32_t outermost; /* frame of the place of the outermost call */
    uint64_t height_bytes;
    const char *problem; /* NULL: all that is known */
};

/* Of a thread of the core, by its number in the list. */
void path_crash_find(const struct path_map *map, const struct core_file *core, uint32_t thread,
                     struct map_cache *cache, struct path_crash *out);

#endif
