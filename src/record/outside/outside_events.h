/*
 * The perf events of a recording from outside, and the rings that they write to.
 *
 * Each thread that is followed has two events on each processor, which the threads and processes
 * that it makes inherit: one takes samples, the other tells of code that is mapped, of names, of
 * beginnings and ends. All events of a processor share two rings, one for each kind, so that
 * samples, which are large, never displace what says whose they are. The rings belong to events of
 * this process, and stay when a thread ends.
 */
#ifndef RECORD_OUTSIDE_EVENTS_H
#define RECORD_OUTSIDE_EVENTS_H

#include "base/error.h"
#include "base/key_set.h"
#include "base/vec.h"
#include "record/outside/outside_records.h"

#include <sys/resource.h>
#include <sys/types.h>

/* What is sampled. */
struct outside_wanted {
    uint64_t period_ns;
    bool in_user, in_kernel; /* where time is counted */
    bool follow;             /* processes that are started, too */
    uint64_t window_bytes;   /* of the stack that comes along, */
    bool has_window;         /* if it is not as usual */
    bool by_height;          /* where it ends, the height stands for the callers */
};

/* One that was opened for a thread; what the kernel gives those that inherit it is its id, too. */
struct outside_event {
    int fd; /* -1: it is closed */
    uint32_t tid;
    uint32_t origin; /* the process that it was opened for */
    bool is_sampling;
    uint32_t generation; /* of those that take samples */
    uint64_t opened_ns;
};

/*
 * Events with a larger window, or of whole processors, take the place of others: samples count
 * while theirs is the time.
 */
enum { OUTSIDE_WINDOWS = 4, OUTSIDE_GENERATIONS = OUTSIDE_WINDOWS + 1 };

struct outside_generation {
    uint64_t from_ns, until_ns;
};

/* A record that has been taken from its ring and waits for its turn. */
struct outside_waiting;

struct outside_ring;

struct outside_events {
    struct outside_wanted wanted;
    uint64_t window_bytes; /* as it is, */
    uint32_t window;       /* and how many larger ones it has had before it */
    uint32_t generation;   /* the newest of: */
    struct outside_generation generations[OUTSIDE_GENERATIONS];
    uint64_t lost_before; /* by events that are closed */
    uint64_t ring_bytes;  /* of samples, for each processor */
    VEC(struct outside_ring) rings;
    VEC(struct outside_event) events;
    struct key_set ids; /* of the events, in their order */
    VEC(struct outside_waiting *) waiting;
    bool lacks_descriptors; /* one could not be opened for that reason */
    bool is_wide;           /* events are of all processes, */
    bool samples_are_wide;  /* at least those that take samples */
    uint64_t last_drained_ns;
    uint64_t told;                    /* records that were no samples */
    struct rlimit descriptors_before; /* of this process; a program gets them back */
    uint64_t damaged;                 /* records that were none */
};

/* Makes the rings. The error says what would permit it. */
int outside_events_begin(struct outside_events *events, const struct outside_wanted *wanted,
                         struct ct_error *err);
void outside_events_end(struct outside_events *events);

/*
 * Opens the events of a thread of the process `origin`; `on_exec`: they sleep until it runs a
 * program. A thread that has ended meanwhile is no error: `is_gone` says so.
 */
int outside_events_add(struct outside_events *events, pid_t tid, pid_t origin, bool on_exec,
                       bool *is_gone, struct ct_error *err);

/* Closes the events that were opened for a process: those that others inherited end with them. */
void outside_events_drop(struct outside_events *events, uint32_t origin);

/*
 * Instead of all those that were opened: events of all processes, one of each kind on each
 * processor, for which few descriptors suffice. They need a privilege. Whose records they are is
 * for the reader to see.
 */
int outside_events_widen(struct outside_events *events, struct ct_error *err);

/*
 * Events with a larger window, beside those that are there: outside_events_enlarge begins a new
 * generation, outside_events_renew opens the sampling events of a thread (of all, where they are of
 * all processes), and outside_events_switch ends the one before; or the new one, if it `failed`.
 * Returns false where there is no larger one.
 */
bool outside_events_enlarge(struct outside_events *events);
int outside_events_renew(struct outside_events *events, pid_t tid, uint32_t origin, bool on_exec);
void outside_events_switch(struct outside_events *events, bool failed);

/*
 * Samples of all processes on each processor, instead of those of each thread: a switch of threads
 * costs nothing then. False: that is not permitted.
 */
bool outside_events_spread(struct outside_events *events);

/* The event of an id, or NULL. */
const struct outside_event *outside_event_of(const struct outside_events *events, uint64_t id);

/*
 * Descriptors that are readable when the rings of samples fill, and `with_tales`, when something is
 * told of processes; returns how many.
 */
unsigned outside_events_descriptors(const struct outside_events *events, bool with_tales, int *fds,
                                    unsigned room);

/* Samples for which the rings had no room; 0 where the kernel does not say. */
uint64_t outside_events_lost(const struct outside_events *events);

/* Takes no more samples; what is told of processes goes on. */
void outside_events_stop(struct outside_events *events);

/*
 * Empties the rings and visits, in the order of their times, the records that can have none before
 * them any more; `all`: those too of which that is not known yet.
 */
typedef void outside_visit(void *context, const struct outside_record *record);
void outside_events_read(struct outside_events *events, bool all, outside_visit *visit,
                         void *context);

#endif
