/*
 * Changing code while other threads run it. live.c says why that is safe, observe.c how threads are
 * seen that stand in the middle of what changes.
 */
#ifndef RUNTIME_LIVE_H
#define RUNTIME_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A place whose bytes change. The new bytes begin with an instruction, and whatever that leads to
 * is there already: also for threads that come upon it before live_replace is over.
 */
struct live_site {
    uint64_t address;
    const uint8_t *old_bytes, *new_bytes;
    uint32_t bytes; /* of each */
    /* Of the first instruction of the old ones. As many as `bytes`: no thread ever stands behind
     * it, and the change is done at once. Otherwise nothing jumps there, no call returns there and
     * no system call is made there: threads only get there one instruction after the other. */
    uint32_t first_bytes;
};

/*
 * The mapping that the sites are in: a copy of its pages is mapped from the same file, so that maps
 * and debuggers still name the module there. It stays mapped until live_replace returns.
 */
struct live_text {
    uint64_t start;  /* of the mapping, */
    uint64_t offset; /* and where that is in the file */
    int file;        /* -1: there is none, the copy is anonymous */
};

/*
 * All sites, sorted by address, get their new bytes. False: nothing has changed, since they were
 * not what they should be, another change is under way, or a thread was not seen outside for as
 * long as there is patience.
 */
bool live_replace(const struct live_text *text, const struct live_site *sites, uint32_t count,
                  uint64_t patience_ns);

/* Mapped memory takes the place of code, in one piece: no thread sees anything in between. */
bool live_swap(const uint8_t *copy, uint64_t at, uint64_t bytes);

/* In a child that was forked: what another thread of its parent was about to change is as it was.
 */
void live_forked(void);

/* --- faults, in the build for tests only: each of them must be noticed -------------------------
 */

enum live_fault {
    FAULT_NONE,
    FAULT_NO_WAIT,    /* threads in the middle are not waited for */
    FAULT_NO_CLOSE,   /* the entrance stays open meanwhile */
    FAULT_SIGNALS,    /* sleeping threads get a signal */
    FAULT_NO_FRAMES,  /* what the frames of signal handlers lead back to is not looked at */
    FAULT_NOT_FORKED, /* a child of a fork finds entrances closed */
    FAULT_IN_PLACE    /* the bytes are written one by one */
};

#ifdef LIVE_FAULTS
extern enum live_fault live_fault;
extern void (*live_seen)(void); /* all threads have been seen, and the last bytes are to come */
#define FAULT(which) (live_fault == (which))
#else
#define FAULT(which) false
#endif

#endif
