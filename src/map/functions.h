/*
 * The functions of a module: the union of symbols and FDE ranges, with aliases, and with the
 * parts that were split from a function (.cold and the like) joined to it.
 */
#ifndef MAP_FUNCTIONS_H
#define MAP_FUNCTIONS_H

#include "base/strings.h"
#include "elf/symbols.h"
#include "map/cfi.h"
#include "map/map_format.h"

struct functions {
    VEC(struct map_function) items; /* sorted by start; one for each start */
    VEC(uint32_t) aliases;
    struct string_pool strings;
};

void functions_collect(const struct elf_file *file, const struct elf_symbols *symbols,
                       const struct cfi *cfi, struct functions *out);
/* Where the name of a part goes on behind the name of its function; NULL: it is no part's. */
const char *functions_part_suffix(const char *name);

void functions_free(struct functions *functions);

#endif
