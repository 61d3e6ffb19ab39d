/*
 * What the instruction at an address does to the call stack: only as much as the true stack needs
 * to know. Answers are kept by address until the map of the traced process changes.
 */
#ifndef STEP_DECODE_H
#define STEP_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum insn_class {
    INSN_OTHER,
    INSN_CALL,
    INSN_RET,
    INSN_POP_REG,
    INSN_PUSH,
    INSN_SYSCALL,
    INSN_INT3,
    INSN_UNREADABLE, /* no instruction can be read or decoded there */
};

struct insn {
    uint64_t pc;
    uint8_t class; /* enum insn_class */
    uint8_t length;
};

struct decode_cache {
    struct insn *slots; /* open addressing; a pc of 0 is free */
    size_t slot_count, used;
};

struct insn decode_at(struct decode_cache *cache, pid_t pid, uint64_t pc);
void decode_forget(struct decode_cache *cache);
void decode_free(struct decode_cache *cache);

/* The text of the instruction at pc, in the assembler's usual syntax. */
void decode_text(pid_t pid, uint64_t pc, char *text, size_t room);

#endif
