/* The runtime begins, in a process and in the children that it forks. */
#ifndef RUNTIME_START_H
#define RUNTIME_START_H

#include <stdbool.h>

/* Writes the process's CPU time into the arena. */
void say_cpu_time(void);

/* In a child that was forked, after guest's page was wiped. */
void begin_in_child(void);

#endif
