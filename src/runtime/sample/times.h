/* When samples came: a log of each thread, in the arena. */
#ifndef RUNTIME_SAMPLE_TIMES_H
#define RUNTIME_SAMPLE_TIMES_H

#include "runtime/thread.h"

/* The sample of this tick stands for so many, at a node. Where there is no room its time is lost,
 * and counted. */
void times_keep(struct thread *thread, uint32_t node, uint64_t weight);

#endif
