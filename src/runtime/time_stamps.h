/* Time stamps, which a program may forbid. */
#ifndef RUNTIME_TIME_STAMPS_H
#define RUNTIME_TIME_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

/* Have time stamps been seen to be forbidden (PR_SET_TSC)? Then none is taken, nor is libc asked.
 */
extern bool time_stamps_are_forbidden;

/* The calling thread may read none from now on. */
void time_stamps_forbid(void);

/* The time stamp counter; 0 where the program has forbidden it. */
uint64_t time_stamp_or_0(void);

#endif
