/* Ticks: the signal that a thread's event sends. */
#ifndef RUNTIME_TICK_H
#define RUNTIME_TICK_H

#include "runtime/arena_format.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct thread;

enum { SAMPLE_SIGNAL = SIGVTALRM };

/* A system call that the program's own use of the signal interrupts goes on, or not. */
void tick_install(bool restarts);

/* Ticks for which there is no time or no room now; and how many the next sample stands for, too. */
void tick_owe(struct thread *thread, enum arena_loss why, uint64_t ticks);
uint64_t tick_settle(struct thread *thread);

#endif
