/*
 * Events of threads cost at each switch of threads: the kernel starts and stops a timer, which
 * takes more than the switch itself (9 us in a virtual machine, of 12). Servers that answer one
 * request after the other do hardly anything else. So where switches cost more than to sample all
 * that runs on all processors, that is done.
 */
#ifndef RECORD_OUTSIDE_SWITCHES_H
#define RECORD_OUTSIDE_SWITCHES_H

#include "record/outside/outside.h"

/* To be called now and then. */
void outside_switches_adapt(struct outside *outside);

#endif
