/* Code that is known by a name and a range of addresses alone, outside every ELF file. */
#ifndef RECORD_NAMED_RANGES_H
#define RECORD_NAMED_RANGES_H

#include "base/vec.h"

#include <stdint.h>

struct named_range {
    uint64_t start, size;
    char *name;
};

struct named_ranges {
    VEC(struct named_range) items; /* sorted by start */
};

void named_ranges_free(struct named_ranges *names);

/* The last that starts at an address or before it, or NULL. It may end before the address. */
const struct named_range *named_ranges_find(const struct named_ranges *names, uint64_t address);

#endif
