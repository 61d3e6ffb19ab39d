/*
 * The cache of maps: one file for each module, under $XDG_CACHE_HOME/calltrail (or ~/.cache).
 *
 * A file is named by the module's build-id or, without one, by what stat says of it, and by what
 * its names come from, so that installing a debug package makes a new map. Files take their place
 * in one step; two writers write the same bytes. A cache that cannot be used is no error: maps are
 * then kept in memory and `warning` says why.
 */
#ifndef MAP_CACHE_H
#define MAP_CACHE_H

#include "map/map.h"

struct map_cache {
    char *folder;            /* NULL: there is no usable one */
    struct ct_error warning; /* empty, or one line to show to the user once */
};

void map_cache_open(struct map_cache *cache);
void map_cache_close(struct map_cache *cache);

/* Is there an entry for this file? It may still turn out to be damaged. */
bool map_is_cached(const struct map_cache *cache, const char *elf_path);

/* The map of an ELF file, from the cache or made now. `was_cached` (may be NULL) says which. */
int map_for_file(struct map_cache *cache, const char *elf_path, struct map *out, bool *was_cached,
                 struct ct_error *err);

#endif
