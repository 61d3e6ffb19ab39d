/*
 * Looks places up in DWARF, by libdw.
 *
 * Only what is asked for is read: the ranges of all compilation units, which their first entries
 * have, and then, for each unit that holds a place, its line table and those of its functions that
 * hold one, each once.
 */
#ifndef NAMES_DWARF_LOOKUP_H
#define NAMES_DWARF_LOOKUP_H

#include "names/sources.h"

#include <elfutils/libdw.h>

/* Told of every place that is done; may be NULL. */
struct lookup_progress {
    void (*done)(void *context, size_t places);
    void *context;
};

/*
 * Adds the places at these offsets (sorted, each once) to `out`, which has none yet. `base` is what
 * offset 0 stands for in the addresses of the debug information.
 */
void dwarf_lookup(Dwarf *dwarf, uint64_t base, const uint64_t *offsets, size_t count,
                  const struct lookup_progress *progress, struct sources *out);

#endif
