/*
 * How far the stack pointer is below the CFA, at places where the unwind rows count from the frame
 * pointer: by following the code of a function from its start.
 */
#ifndef EDIT_DEPTH_H
#define EDIT_DEPTH_H

#include "base/key_set.h"
#include "elf/elf_file.h"
#include "map/map.h"

struct depths {
    const struct elf_file *file;
    const struct map *map;
    uint32_t function;      /* the one that was followed last, or NO_PARENT */
    struct key_set reached; /* uint32_t: offsets of its instructions, */
    VEC(uint32_t) bytes;    /* and how deep the stack is there; DEPTH_UNKNOWN */
};

#define DEPTH_UNKNOWN UINT32_MAX

void depths_begin(struct depths *depths, const struct elf_file *file, const struct map *map);
void depths_end(struct depths *depths);

/* At an instruction of the function that begins there; 0: it is not known, or not always the same.
 */
uint32_t depths_at(struct depths *depths, uint32_t function, uint32_t offset);

#endif
