/*
 * The functions of a module: the union of symbols and FDE ranges, with aliases, and with .cold
 * parts joined to the function that they were split from.
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
void functions_free(struct functions *functions);

#endif
