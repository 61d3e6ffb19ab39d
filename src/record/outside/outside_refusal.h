/* Why the kernel does not let a process be recorded from outside, and what would make it do so. */
#ifndef RECORD_OUTSIDE_REFUSAL_H
#define RECORD_OUTSIDE_REFUSAL_H

#include "record/outside/outside_events.h"

/* For an event of a thread (0: of this process) that was refused with this errno. */
int outside_refuse(int why, const struct outside_wanted *wanted, pid_t tid, struct ct_error *err);

/* For a ring. */
int outside_refuse_memory(int why, struct ct_error *err);

#endif
