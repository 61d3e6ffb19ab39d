/*
 * A folder of slices on their way to a store (record --every --store). One process at a time
 * empties it, oldest first; a slice goes when the store has it. While the store is away slices
 * stay, and when they are too many the oldest are merged: the disk is bounded, and nothing is lost
 * but the moments at which long ago things happened.
 *
 * Nothing is counted twice: a slice that is being added is called .sending, and is never merged,
 * since the store may have it already; adding it again then changes nothing. A merged slice has a
 * name that says which ones it replaces, so that those are not taken for others if the merging was
 * cut off.
 */
#ifndef STORE_STORE_SPOOL_H
#define STORE_STORE_SPOOL_H

#include "store/store.h"

struct store_spool {
    const char *url;
};

/* As record_slices.carry; the context is a struct store_spool. */
unsigned store_spool_carry(const void *context, const char *folder, uint64_t bytes, int wake);

#endif
