/* `calltrail record` from outside: starts a program or takes up processes, to the end. */
#ifndef RECORD_OUTSIDE_RUN_H
#define RECORD_OUTSIDE_RUN_H

#include "record/record.h"
#include "record/server.h"

/*
 * Runs the program at `path`, or records the processes of the options, and writes the profile.
 * `slices` is NULL for one profile at the end.
 * `exit_status` is the program's, as a shell would see it; of processes it is 0.
 */
struct slices;
struct signals;
int outside_run(const struct record_options *options, struct server *server, struct slices *slices,
                const struct signals *signals, const char *path, int *exit_status,
                struct ct_error *err);

/* Whether the events of a process could be had; the error says why not. */
int outside_try(pid_t pid, bool in_kernel, struct ct_error *err);

#endif
