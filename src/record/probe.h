/* What sampling costs and reaches on this machine, by trying it in this process. */
#ifndef RECORD_PROBE_H
#define RECORD_PROBE_H

#include <stdint.h>

enum { PROBE_TICKS = 75 };

/* The others only between these two: they set what the signal of a sample does here. */
void probe_begin(void);
void probe_end(void);

/* An event of so many ticks a second for this thread, running; -1 and errno: not permitted. */
int probe_open(uint64_t hz);

/* Burns CPU time in user mode and says how many signals came for each second of it. */
double probe_rate(void);

/*
 * What the kernel takes for an event and its signal, of the program's CPU time: the same work with
 * and without, in turn, so that a machine with other work does no harm.
 */
double probe_cost_us(void);

/*
 * CPU time from a tick of the event to the handler of its signal, when nothing comes between: the
 * lower quartile of many. 0: no events here.
 */
uint64_t probe_tick_delay_ns(void);

#endif
