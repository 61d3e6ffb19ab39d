/*
 * Names of code that a program makes at run time, from the file that it writes for perf:
 * /tmp/perf-PID.map, with lines "START SIZE NAME" in hexadecimal.
 */
#ifndef RECORD_JIT_H
#define RECORD_JIT_H

#include "record/named_ranges.h"

#include <stdint.h>

/* Adds what the process wrote; of two at one start the newer comes last. */
void jit_read(struct named_ranges *names, uint32_t pid);

/* The code at an address, or NULL. */
const struct named_range *jit_find(const struct named_ranges *names, uint64_t address);

#endif
