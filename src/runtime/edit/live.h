/*
 * Changing code while other threads run it. live.c says why that is safe, observe.c how threads are
 * seen that stand in the middle of what changes.
 */
#ifndef RUNTIME_LIVE_H
#define RUNTIME_LIVE_H

#include "runtime/edit/live_site.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The mapping that the sites are in: a copy of its pages is mapped from the same file, so that maps
 * and debuggers still name the module there. It stays mapped until live_replace returns.
 */
struct live_text {
    uint64_t start;  /* of the mapping, */
    uint64_t offset; /* and where that is in the file */
    int file;        /* -1: there is none, the copy is anonymous */
};

/*
 * All sites, sorted by address, get their new bytes. False: nothing has changed, since they were
 * not what they should be, another change is under way, or a thread was not seen outside for as
 * long as there is patience.
 */
bool live_replace(const struct live_text *text, const struct live_site *sites, uint32_t count,
                  uint64_t patience_ns);

/* Mapped memory takes the place of code, in one piece: no thread sees anything in between. */
bool live_swap(const uint8_t *copy, uint64_t at, uint64_t bytes);

/* In a child that was forked: what another thread of its parent was about to change is as it was.
 */
void live_forked(void);

#endif
