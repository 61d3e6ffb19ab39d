/* Ticks that no sample stands for yet. */
#ifndef RUNTIME_TICKS_OWED_H
#define RUNTIME_TICKS_OWED_H

#include "runtime/arena_format.h"

#include <stdint.h>

struct thread;

/* Ticks for which there is no time or no room now; and how many the next sample stands for, too. */
void tick_owe(struct thread *thread, enum arena_loss why, uint64_t ticks);
uint64_t tick_settle(struct thread *thread);

#endif
