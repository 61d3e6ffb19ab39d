/*
 * The instructions of a function, as text, from the file that it was loaded from.
 */
#ifndef NAMES_DISASSEMBLE_H
#define NAMES_DISASSEMBLE_H

#include "base/vec.h"
#include "names/debug_info.h"

struct instruction {
    uint64_t offset; /* in the module */
    uint32_t size;
    char text[100]; /* Intel syntax; targets are offsets in the module */
};

struct instructions {
    VEC(struct instruction) items; /* in order; freed by the caller */
};

/* A file of another build, or none, is an error. Bytes that are no instruction become ".byte". */
int disassemble(const struct debug_module *module, uint64_t offset, uint64_t size,
                struct instructions *out, struct ct_error *err);

#endif
