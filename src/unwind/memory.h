/*
 * The memory of this process that a walk may read.
 *
 * The stack of a thread is known by its bounds. A walk that leads elsewhere (an alternate signal
 * stack, a coroutine's stack, a damaged frame pointer) asks the kernel, page by page, whether it
 * can be read; nothing is ever touched to find out.
 */
#ifndef UNWIND_MEMORY_H
#define UNWIND_MEMORY_H

#include "unwind/walk.h"

/* Can the 8 bytes at this address be read? */
bool memory_can_be_read(uint64_t address);

/* False where the program's filter does not permit to ask: then no memory can be read. */
extern bool memory_may_be_asked;

/* Memory of this process, with [start, end) known to be readable (0, 0: nothing is known). */
struct walk_memory memory_of_this_process(uint64_t start, uint64_t end);

#endif
