/* Larger windows for programs whose stacks are higher than what comes along with samples. */
#ifndef RECORD_OUTSIDE_WINDOW_H
#define RECORD_OUTSIDE_WINDOW_H

#include "record/outside/outside.h"

/* Opens events with a larger window when too many stacks were cut. To be called now and then. */
void outside_window_adapt(struct outside *outside);

/* outside_thread's `own`, of a thread that was made then, and is heard of only now. */
uint32_t outside_window_own(const struct outside *outside, uint32_t tid, uint64_t made_ns);

#endif
