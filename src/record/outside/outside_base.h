/*
 * Where a stack begins: the slot of its outermost return address, from which heights are counted.
 * It is looked for in the memory of the process as it is now, which is right for as long as the
 * thread runs: the outermost frame stays.
 */
#ifndef RECORD_OUTSIDE_BASE_H
#define RECORD_OUTSIDE_BASE_H

#include "record/outside/outside_process.h"

/*
 * The base of the stack that a thread's stack pointer is in. False: there is none that is certain,
 * as where several stacks share a mapping.
 */
bool outside_base_find(const struct outside_process *process, struct outside_base *base,
                       uint64_t sp);

/* The same for a stack of which there is a copy, from sp up to its end. */
bool outside_base_in(const struct outside_process *process, uint64_t sp, const char *stack,
                     uint64_t bytes, struct outside_base *base);

#endif
