/* Reads what same_tick.c has written, and walks its whole stacks. */
#ifndef SAME_TICK_READ_H
#define SAME_TICK_READ_H

#include "record/outside/outside_walk.h"
#include "same_tick.h"

/* A tick: as the kernel's record has it, and as the handler found it. */
struct same_tick_pair {
    struct outside_process *process;
    const struct outside_sample *outside;
    const uint64_t *registers; /* the same in both */
    const char *stack;         /* all of it, from the stack pointer on */
    uint64_t stack_bytes;
};

typedef void same_tick_visit(void *context, const struct same_tick_pair *pair);

/*
 * Visits the ticks of a file; `other_ticks`: how many had no record of the same registers, since
 * the signal came later. False: the file cannot be read to its end.
 */
bool same_tick_each(const char *path, same_tick_visit *visit, void *context, uint64_t *other_ticks);

/* As from inside: all of the stack, at its own addresses, and nothing of the other way. */
void same_tick_walk_whole(const struct same_tick_pair *pair, struct outside_walked *out);

#endif
