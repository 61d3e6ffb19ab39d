/* Modules made at run time, for debuggers: see jit_list.c. */
#ifndef RUNTIME_EDIT_JIT_LIST_H
#define RUNTIME_EDIT_JIT_LIST_H

#include <stdint.h>

/* An ELF image in memory; the layout is gdb's. */
struct jit_code_entry {
    struct jit_code_entry *next, *previous;
    const void *image;
    uint64_t image_bytes;
};

void jit_list_add(struct jit_code_entry *entry);
void jit_list_remove(struct jit_code_entry *entry);

#endif
