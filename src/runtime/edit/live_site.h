/* What live_replace changes, and what is observed meanwhile. */
#ifndef RUNTIME_LIVE_SITE_H
#define RUNTIME_LIVE_SITE_H

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
