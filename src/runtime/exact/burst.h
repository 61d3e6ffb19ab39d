/* Counting for a short time now and then. */
#ifndef RUNTIME_EXACT_BURST_H
#define RUNTIME_EXACT_BURST_H

struct thread;

/* With --burst: at each tick a burst begins or ends; and the last one does. */
void burst_tick(struct thread *thread);
void burst_last(struct thread *thread);

#endif
