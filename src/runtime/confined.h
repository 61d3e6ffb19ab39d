/* Filters for system calls, and other things that confine us. */
#ifndef RUNTIME_CONFINED_H
#define RUNTIME_CONFINED_H

#include <stdbool.h>

/* How many there are without any of the program's. */
void confined_expect(unsigned filters);

/* Are there more than we know of? And the same with what follows from it. */
bool confined_by_others(void);
bool confined_look(void);

/* Was a debugger there at the start? It sees every signal, and stops at it: there are no samples.
 */
bool is_debugged(void);

/* Has the program installed a filter for system calls? Then we make no more than we must. */
bool is_confined(void);

/* And does it forbid even that? There are no samples then. Stubs ask, which call no function. */
extern bool calls_are_forbidden;

static inline bool may_call_nothing(void)
{
    return calls_are_forbidden;
}

/* prctl or seccomp, by which the program installs one; a negative errno on failure. */
long confined_install(long number, long a, long b, long c, long d, long e);

#endif
