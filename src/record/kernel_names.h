/* Functions of the kernel, from /proc/kallsyms: readable for root, or where kptr_restrict is 0. */
#ifndef RECORD_KERNEL_NAMES_H
#define RECORD_KERNEL_NAMES_H

#include "record/named_ranges.h"

#include <stdbool.h>
#include <stdint.h>

/* All code of the kernel and of its modules lies above this. */
#define KERNEL_BASE UINT64_C(0xffffffff80000000)

bool kernel_names_are_readable(void);

/* Empty where it cannot be read. A function goes up to the next one. */
void kernel_names_read(struct named_ranges *names);

/* The function at an address, or NULL. */
const struct named_range *kernel_names_find(const struct named_ranges *names, uint64_t address);

#endif
