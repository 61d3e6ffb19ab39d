/* What makes ticks: an event of each thread's CPU time. */
#ifndef RUNTIME_EVENT_H
#define RUNTIME_EVENT_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct thread;

/* The calling thread's event begins. False, and counted, where none can be had. */
bool event_start(struct thread *thread);
void event_stop(struct thread *thread);

/* The same, and none of its signals is pending any more. */
void event_stop_and_drain(struct thread *thread);

/* Another thread's event ends; the thread may be looking at its records at this moment. */
void event_silence(struct thread *thread);

/* The first tick has come, after a random part of a period: does it count? */
bool event_first_tick(struct thread *thread);

/* One more tick, after so long. */
void event_once_more(struct thread *thread, uint64_t ns);

/* Now and then changes the event's period, so that the rate is that of samples per user time. */
void event_keep_rate(struct thread *thread);

/* From one tick to the next, by the CPU time of the thread. */
uint64_t event_period_ns(const struct thread *thread);

/* How many periods of user time the signal of a timer stands for. */
uint64_t event_timer_ticks(struct thread *thread, const siginfo_t *info);

/* Notes how often the event has fired, as far as that is known. */
void event_count_fired(const struct thread *thread);

#endif
