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
extern bool has_filter; /* changed where one is installed (filter_install.c) */

/* And does it forbid even that? There are no samples then. Stubs ask, which call no function. */
extern bool calls_are_forbidden;

static inline bool may_call_nothing(void)
{
    return calls_are_forbidden;
}

#endif
