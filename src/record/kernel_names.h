/* Functions of the kernel, from /proc/kallsyms: readable for root, or where kptr_restrict is 0. */
#ifndef RECORD_KERNEL_NAMES_H
#define RECORD_KERNEL_NAMES_H

#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

/* All code of the kernel and of its modules lies above this. */
#define KERNEL_BASE UINT64_C(0xffffffff80000000)

struct kernel_function {
    uint64_t start, size; /* up to the next one */
    char *name;
};

struct kernel_names {
    VEC(struct kernel_function) functions; /* sorted */
};

bool kernel_names_are_readable(void);

/* Empty where it cannot be read. */
void kernel_names_read(struct kernel_names *names);
void kernel_names_free(struct kernel_names *names);

/* The function at an address, or NULL. */
const struct kernel_function *kernel_names_find(const struct kernel_names *names, uint64_t address);

#endif
