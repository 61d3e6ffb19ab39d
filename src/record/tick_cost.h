/* What a tick of the sampling event takes of a program's user time, before the runtime knows. */
#ifndef RECORD_TICK_COST_H
#define RECORD_TICK_COST_H

#include <stdint.h>

/*
 * The first guess of the runtime, which knows better as user time passes (runtime/event.c).
 * Measured once after each start of the machine, and kept beside the maps. 0: no events here.
 */
uint32_t tick_cost_ns(void);

#endif
