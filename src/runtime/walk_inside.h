/* What the parts of the walker share. */
#ifndef RUNTIME_WALK_INSIDE_H
#define RUNTIME_WALK_INSIDE_H

#include "runtime/search.h"
#include "runtime/walk.h"

#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Where a walk stands. */
struct walk_position {
    uint64_t pc, sp, bp;
    bool ended; /* the outermost frame has been walked */
};

/* Has the range that holds the 8 bytes at the address been found? */
bool walk_find_memory(struct walk_memory *memory, uint64_t address);

static inline __attribute__((always_inline)) bool walk_read_word(struct walk_memory *m,
                                                                 uint64_t address, uint64_t *value)
{
    /* One comparison for both bounds; end - 8 cannot wrap, since a range is never shorter. */
    if (unlikely(address - m->start > m->end - 8 - m->start || m->end - m->start < 8) &&
        !walk_find_memory(m, address))
        return false;
    memcpy(value, (const void *)(uintptr_t)(address + m->bias), sizeof *value);
    return true;
}

static inline uint32_t walk_find_module(const struct walk_modules *modules, uint64_t pc)
{
    uint32_t i;
    SEARCH(i, modules->count, modules->items[i].end <= pc);
    return i < modules->count && pc >= modules->items[i].start ? i : UINT32_MAX;
}

/*
 * A step out of code without unwind information, by its frame pointer (walk_unknown.c). `slot` is
 * where the return address was.
 */
bool walk_step_unknown(const struct walk_modules *modules, struct walk_memory *memory,
                       struct walk_position *at, bool is_pc, uint64_t *slot);

/* Is the return address, in a module, behind a call? (walk_prologue.c) */
bool walk_is_behind_call(const struct walk_modules *modules, const struct walk_memory *memory,
                         uint64_t pc);

/*
 * The push %rbp by which the function begins that a pc of a module is in, if it sets up a frame
 * pointer, as far as its bytes tell; 0: it does not. (walk_prologue.c)
 */
uint64_t walk_find_prologue(const struct walk_modules *modules, const struct walk_memory *memory,
                            uint64_t pc, bool is_pc);

/* From where on rbp is the frame pointer, in a function with this push %rbp. (walk_prologue.c) */
uint64_t walk_find_frame(const struct walk_memory *memory, uint64_t push);

/*
 * The walk has come to the return address 0. Is that the end of this stack? Then the last of
 * `count` frames becomes like any outermost one. (walk_unknown.c)
 */
bool walk_ends_at_zero(const struct walk_memory *memory, const struct walk_position *at,
                       struct walk_frame *frames, uint32_t count);

#endif
