/*
 * What was looked up before, so that debug information is read once.
 *
 * An entry is a profile without nodes: one module, and a frame with its lines for each place that
 * was ever asked for. It is beside the maps, under $XDG_CACHE_HOME/calltrail, named by the build-id
 * and by the file that the names are from. Entries may be deleted at any time.
 */
#ifndef NAMES_NAME_CACHE_H
#define NAMES_NAME_CACHE_H

#include "names/debug_info.h"
#include "names/sources.h"

struct name_cache {
    char *folder; /* NULL: there is none */
};

void name_cache_open(struct name_cache *cache);
void name_cache_close(struct name_cache *cache);

/* The path of the entry, to be freed; NULL without a cache or without a build-id. */
char *name_cache_entry(const struct name_cache *cache, const struct debug_module *module,
                       const char *debug_path);

/* Adds what the entry holds to empty sources. A damaged or missing entry holds nothing. */
void name_cache_read(const char *entry, const struct debug_module *module, struct sources *out);

/* Writes the entry. That it cannot be written is no error. */
void name_cache_write(const struct name_cache *cache, const char *entry,
                      const struct debug_module *module, const struct sources *sources);

#endif
