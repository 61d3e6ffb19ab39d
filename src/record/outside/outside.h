/*
 * Recording from outside: processes, threads and programs are followed by what the kernel tells of
 * them, and each sample's stack is walked here, from the copy that came with it.
 */
#ifndef RECORD_OUTSIDE_H
#define RECORD_OUTSIDE_H

#include "record/outside/outside_events.h"
#include "record/outside/outside_process.h"

struct outside {
    struct server *server;
    struct outside_events events;
    struct outside_files files;
    VEC(struct outside_process *) processes; /* that have not ended */
    bool verify;
    bool names_kernel;           /* addresses of the kernel can be told apart */
    uint64_t from_ns, until_ns;  /* samples count between these */
    uint64_t samples, cut;       /* with the window that there is now */
    uint64_t lost_told;          /* by records */
    uint64_t lost, unattributed; /* with no arena to say it in yet */
    uint64_t samples_32;         /* of 32-bit programs, whose stacks are not walked */
};

int outside_begin(struct outside *outside, struct server *server,
                  const struct outside_wanted *wanted, bool verify, struct ct_error *err);
void outside_end(struct outside *outside);

/* Follows a child that waits to call exec. */
int outside_follow(struct outside *outside, pid_t child, struct ct_error *err);

/* Takes what is in the rings. To be called every few milliseconds; `all`: at the end. */
void outside_read(struct outside *outside, bool all);

struct outside_process *outside_find(const struct outside *outside, uint32_t pid);

#endif
