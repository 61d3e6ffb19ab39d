/* The signals that `record` takes itself: they tell it what to do, or go on to the program. */
#ifndef RECORD_SIGNALS_H
#define RECORD_SIGNALS_H

#include <signal.h>

struct signals {
    int fd;          /* tells of them */
    sigset_t before; /* what was blocked, as it is to be in the program */
};

/*
 * They stay blocked for good: neither the first Ctrl-C, as soon as there is a folder, nor a second
 * one must leave it behind.
 */
void signals_take(struct signals *signals);

#endif
