/* Seeing where all threads of the process are, without touching any of them. */
#ifndef RUNTIME_OBSERVE_H
#define RUNTIME_OBSERVE_H

#include "runtime/edit/live_site.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Has every thread been seen, after this was called, where it can get behind the first instruction
 * of a site no more? False: not so in that time. The entrances of the sites are closed. `own_frame`
 * is where the calling thread's stack began when it blocked all signals.
 */
bool observe_all_outside(const struct live_site *sites, uint32_t count, uint64_t own_frame,
                         uint64_t patience_ns);

/* Reads /proc/self/task/TID/NAME; how many bytes came, less than 0 when there is no such thread. */
long thread_read(uint32_t tid, const char *name, char *text, unsigned bytes);

#endif
