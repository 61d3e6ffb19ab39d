/* How much of memory the processor maps at once: on x86-64 the same on every machine. */
#ifndef BASE_PAGE_H
#define BASE_PAGE_H

#include <stdint.h>

enum { PAGE_BYTES = 4096 };

/* Where the page of an address begins. */
static inline uint64_t page_start(uint64_t address)
{
    return address & ~(uint64_t)(PAGE_BYTES - 1);
}

/* So many bytes, or the next whole page behind an address. */
static inline uint64_t page_round_up(uint64_t bytes)
{
    return page_start(bytes + PAGE_BYTES - 1);
}

#endif
