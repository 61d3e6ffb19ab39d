/* The program's limits for its memory. */
#ifndef RUNTIME_LIMITS_H
#define RUNTIME_LIMITS_H

#include <stdint.h>

/* How many bytes the process may map, whatever has been mapped already. */
uint64_t limit_of_memory(void);

#endif
