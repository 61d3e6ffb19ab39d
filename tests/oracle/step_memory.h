/*
 * The traced process's memory, as the walker is allowed to see it.
 *
 * Its stack is mirrored in a buffer of ours: the 64 KB around and above the stack pointer are read
 * again at every step; what lies further up was read when the stack pointer was near it, and is
 * read again every thousand steps (return addresses and saved registers of callers do not change
 * under their callees; reading megabytes at every step would make deep recursion hopeless). Memory
 * elsewhere, such as an alternate signal stack or a jmp_buf, is fetched when the walker asks for
 * it, at every walk.
 */
#ifndef STEP_MEMORY_H
#define STEP_MEMORY_H

#include "runtime/walk.h"

#include <sys/types.h>

/* Reads up to size bytes; returns how many could be read before the first page that cannot. */
size_t read_tracee(pid_t pid, uint64_t address, void *bytes, size_t size);

/* Reads one word; false if it cannot be read. */
bool read_word(pid_t pid, uint64_t address, uint64_t *word);

struct stack_mirror {
    pid_t pid;
    uint64_t top;    /* just above the highest byte of the stack that matters */
    uint64_t bottom; /* of the mirrored address range */
    uint64_t start;  /* [start, top) has been read */
    uint8_t *bytes;  /* of [bottom, top) */
    unsigned steps_since_full;
    uint8_t *elsewhere;
    uint64_t elsewhere_start, elsewhere_end;
};

/* A mirror of a stack that ends at top. */
void mirror_begin(struct stack_mirror *mirror, pid_t pid, uint64_t top);
void mirror_end(struct stack_mirror *mirror);

/* Forgets the mirrored bytes: the process has run without our seeing it. */
void mirror_forget(struct stack_mirror *mirror);

/* Reads again what may have changed, and gives the memory for a walk that begins at rsp. */
struct walk_memory mirror_refresh(struct stack_mirror *mirror, uint64_t rsp);

/* The same again after a walk, which may have gone to another stack. */
struct walk_memory mirror_again(struct stack_mirror *mirror, struct walk_memory memory);

#endif
