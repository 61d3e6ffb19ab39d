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

enum { CACHE_BUILD_ID_MAX = 32 };

struct map_cache {
    char *folder;            /* NULL: there is no usable one */
    bool is_tidy;            /* by this process: once is enough, however many maps it makes */
    struct ct_error warning; /* empty, or one line to show to the user once */
};

/*
 * The folder of one kind of entries, such as "maps-3", made if need be; to be freed. NULL, with the
 * reason, when there is none that is private to this user.
 */
char *cache_folder(const char *kind, struct ct_error *why);

/* Removes entries (files whose name ends so) that have not been used for long, then the oldest
 * while all together are larger than `most_bytes`, and temporary files of writers that were killed.
 */
void cache_tidy(const char *folder, const char *suffix, uint64_t most_bytes);

/* Sets the time of the last use, to the day: what cache_tidy goes by. */
void cache_mark_used(const char *entry, const struct stat *status);

/* "HEX" or "no-build-id". */
const char *build_id_hex(const uint8_t *id, uint32_t size, char text[2 * CACHE_BUILD_ID_MAX + 1]);

void map_cache_open(struct map_cache *cache);
void map_cache_close(struct map_cache *cache);

/* Is there an entry for this file? It may still turn out to be damaged. */
bool map_is_cached(const struct map_cache *cache, const char *elf_path);

/* The path of that entry, to be freed; NULL if there is none. */
char *map_cached_path(const struct map_cache *cache, const char *elf_path);

/* The map of an ELF file, from the cache or made now. `was_cached` (may be NULL) says which. */
int map_for_file(struct map_cache *cache, const char *elf_path, struct map *out, bool *was_cached,
                 struct ct_error *err);

#endif
