/*
 * Where functions begin in code that no FDE covers: symbols, addresses that are taken, and what
 * direct calls lead to. Found once for the whole module.
 */
#ifndef MAP_ENTRIES_H
#define MAP_ENTRIES_H

#include "map/cfi.h"
#include "map/functions.h"

struct entries {
    VEC(uint32_t) offsets; /* sorted; each once */
};

void entries_find(const struct elf_file *file, const struct cfi *cfi,
                  const struct functions *functions, struct entries *out);
void entries_free(struct entries *entries);

/* The index of the first entry at or behind an offset. */
size_t entries_from(const struct entries *entries, uint32_t offset);

#endif
