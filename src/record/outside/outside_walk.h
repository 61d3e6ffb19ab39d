/* One sample: its stack, walked, and counted in the tree of its thread. */
#ifndef RECORD_OUTSIDE_WALK_H
#define RECORD_OUTSIDE_WALK_H

#include "record/outside/outside.h"

void outside_count(struct outside *outside, struct outside_process *process,
                   struct outside_thread *thread, const struct outside_sample *sample);

#endif
