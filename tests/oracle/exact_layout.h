/* Where things are in the engine's memory; its own header does not go together with the oracle's.
 */
#ifndef EXACT_LAYOUT_H
#define EXACT_LAYOUT_H

#include <stdint.h>

struct exact_layout {
    uint64_t mirror, arena, others; /* in struct exact_state */
    uint64_t mirror_mask;           /* from a slot's address to its tag, */
    uint64_t mirror_records;        /* and from there to its record */
};

extern const struct exact_layout exact_layout;

#endif
