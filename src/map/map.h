/*
 * A module map in memory: opened from a map file, or made from an ELF file through the cache.
 */
#ifndef MAP_MAP_H
#define MAP_MAP_H

#include "base/error.h"
#include "base/file.h"
#include "map/map_format.h"

#include <stdbool.h>

struct map {
    struct mapped_file file;
    void *owned;      /* or the bytes are on the heap, and freed with the map */
    char *entry_path; /* the file, if it is an entry of the cache */
    const struct map_header *header;
    struct map_tables tables;
    const struct map_function *functions;
    const uint32_t *aliases;
    const char *strings;
    uint32_t function_count;
    uint32_t alias_count;
    uint64_t strings_size;
};

/*
 * Opens a map file. The header and all section bounds are checked; with check_body the hash of the
 * whole file too. The lookups below are safe on any contents.
 */
int map_open(const char *path, bool check_body, struct map *out, struct ct_error *err);
void map_close(struct map *map);

/* The same for bytes that are already in memory; they must outlive the map. */
int map_from_bytes(const void *bytes, size_t size, bool check_body, struct map *out,
                   struct ct_error *err);

/* The string at an offset of the strings section; "" for an offset outside. */
const char *map_string(const struct map *map, uint32_t offset);

/* The function that holds the byte at `offset`, or NULL. */
const struct map_function *map_find_function(const struct map *map, uint64_t offset);

/* The function that a cold part belongs to; a function that is none is its own. */
static inline const struct map_function *map_whole_of(const struct map *map,
                                                      const struct map_function *f)
{
    return map_whole_function(map->functions, map->function_count, f);
}

/* The special rule that a rule stands for, spelt out; direct rules are spelt out too. */
struct map_special map_spell_rule(const struct map_tables *tables, uint32_t row);

/* Builds a map of an ELF file (which elf_open or elf_complete has opened) and writes it. */
struct elf_file;
int map_build_elf(struct elf_file *file, FILE *out, struct ct_error *err);
int map_build(const char *elf_path, FILE *out, struct ct_error *err);

#endif
