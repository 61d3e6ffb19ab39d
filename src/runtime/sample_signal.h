/* The signal that a thread's event sends: one tick of its clock (event.c sends it, tick.c is its
 * handler, masks.c keeps it apart from the program's). */
#ifndef RUNTIME_SAMPLE_SIGNAL_H
#define RUNTIME_SAMPLE_SIGNAL_H

#include <signal.h>

enum { SAMPLE_SIGNAL = SIGVTALRM };

#endif
