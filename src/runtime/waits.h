/* Waits with another mask: sigsuspend, ppoll and the like. */
#ifndef RUNTIME_WAITS_H
#define RUNTIME_WAITS_H

void waits_prepare(void);

#endif
