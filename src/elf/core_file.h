/*
 * A core file of an x86-64 Linux process: what its threads' registers were, which files were
 * mapped, and the memory that was saved. It comes from outside: nothing in it is trusted.
 */
#ifndef ELF_CORE_FILE_H
#define ELF_CORE_FILE_H

#include "base/error.h"
#include "base/file.h"
#include "base/vec.h"

#include <gelf.h>
#include <stdbool.h>
#include <stdint.h>

struct core_mapping {
    uint64_t start, end, file_offset;
    const char *path; /* in the file */
};

struct core_thread {
    uint32_t tid;
    uint64_t pc, sp, bp;
};

struct core_file {
    struct mapped_file file;
    Elf *elf;
    VEC(struct core_thread) threads;   /* the first is the one that crashed */
    VEC(struct core_mapping) mappings; /* of files */
};

int core_open(const char *path, struct core_file *out, struct ct_error *err);
void core_close(struct core_file *core);

/* The saved bytes from an address on, and how many there are; NULL: none. */
const uint8_t *core_memory(const struct core_file *core, uint64_t address, uint64_t *bytes);

#endif
