/* What same_tick.c writes of each sample, and same_tick_compare.c reads. */
#ifndef SAME_TICK_H
#define SAME_TICK_H

#include <stdint.h>

/* The record of the ring, the stack and the text of /proc/self/maps follow. */
struct same_tick {
    uint64_t registers[17]; /* in the order of a record's */
    uint64_t record_bytes, stack_bytes, maps_bytes;
};

#endif
