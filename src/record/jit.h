/*
 * Names of code that a program makes at run time, from the file that it writes for perf:
 * /tmp/perf-PID.map, with lines "START SIZE NAME" in hexadecimal.
 */
#ifndef RECORD_JIT_H
#define RECORD_JIT_H

#include "base/vec.h"

#include <stdint.h>

struct jit_symbol {
    uint64_t start, size;
    char *name;
};

struct jit_map {
    VEC(struct jit_symbol) symbols; /* sorted by start; of two at one start the newer */
};

void jit_read(struct jit_map *map, uint32_t pid);
void jit_free(struct jit_map *map);
const struct jit_symbol *jit_find(const struct jit_map *map, uint64_t address);

#endif
