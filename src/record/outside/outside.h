/*
 * Recording from outside: processes, threads and programs are followed by what the kernel tells of
 * them, and each sample's stack is walked here, from the copy that came with it.
 */
#ifndef RECORD_OUTSIDE_H
#define RECORD_OUTSIDE_H

#include "record/outside/outside_events.h"
#include "record/outside/outside_process.h"

/* How often the threads that work give up their processor (outside_switches.h). */
struct outside_switches {
    uint64_t looked_ns;
    bool were_many; /* when they were counted the last time, too */
    bool is_over;   /* nothing can be done about it */
};

struct outside {
    struct server *server;
    struct outside_events events;
    struct outside_files files;
    VEC(struct outside_process *) processes; /* that have not ended */
    bool verify;
    bool by_height;              /* where the window ends, the stack's height is kept */
    bool names_kernel;           /* addresses of the kernel can be told apart */
    uint64_t from_ns, until_ns;  /* samples count between these */
    uint64_t samples, cut;       /* with the window that there is now */
    uint64_t heights;            /* of those, whose callers are known by the height alone */
    uint64_t lost_told;          /* by records */
    uint64_t lost, unattributed; /* with no arena to say it in yet */
    uint64_t samples_32;         /* of 32-bit programs, whose stacks are not walked */
    struct outside_switches switches;
};

int outside_begin(struct outside *outside, struct server *server,
                  const struct outside_wanted *wanted, bool verify, struct ct_error *err);
void outside_end(struct outside *outside);

/* Follows a process that waits to call exec, with all that it starts from then on. */
int outside_follow(struct outside *outside, pid_t pid, uint32_t parent, struct ct_error *err);

/* It does not call exec after all. */
void outside_unfollow(struct outside *outside, pid_t pid);

/* On stderr: what was lost, cut, or not walked. */
void outside_say_what_is_missing(const struct outside *outside);

/* Takes what is in the rings. To be called every few milliseconds; `all`: at the end. */
void outside_read(struct outside *outside, bool all);

struct outside_process *outside_find(const struct outside *outside, uint32_t pid);

#endif
