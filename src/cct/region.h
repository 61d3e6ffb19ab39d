/*
 * Memory for forests that are built offline: one range of addresses, filled from the front. Pages
 * that are not used yet take no memory.
 */
#ifndef CCT_REGION_H
#define CCT_REGION_H

#include "base/error.h"
#include "cct/forest.h"

struct region {
    struct forest_memory memory; /* to give to forest_begin */
    uint64_t size_bytes, used_bytes;
};

/* At most 32 GB, which is as far as a forest can count. */
int region_begin(struct region *region, uint64_t size_bytes, struct ct_error *err);
void region_end(struct region *region);

#endif
