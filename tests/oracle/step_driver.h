/* What the programs that step others have in common: numbers, time, chance. */
#ifndef ORACLE_STEP_DRIVER_H
#define ORACLE_STEP_DRIVER_H

#include <stdint.h>

/* A number of the command line; of anything else `usage` is told, which does not return. */
uint64_t driver_number(const char *text, void (*usage)(const char *what));

double driver_seconds(void);

/* The next random number. */
uint64_t driver_random(uint64_t *state);

#endif
