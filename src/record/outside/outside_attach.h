/* Taking up processes that run already. */
#ifndef RECORD_OUTSIDE_ATTACH_H
#define RECORD_OUTSIDE_ATTACH_H

#include "record/outside/outside.h"

/*
 * All threads of the processes and, if they are to be followed, their children. `pids` that are not
 * there, or may not be recorded, are an error.
 */
int outside_attach(struct outside *outside, const pid_t *pids, size_t count, struct ct_error *err);

/* 0: it is gone. */
uint32_t outside_parent_of(uint32_t pid);

#endif
