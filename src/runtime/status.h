/* What the kernel says of this process, or of a thread of it, in /proc. */
#ifndef RUNTIME_STATUS_H
#define RUNTIME_STATUS_H

#include <stdbool.h>
#include <stdint.h>

struct process_status {
    unsigned filters; /* for system calls */
    unsigned tracer;  /* the pid of a debugger; 0: none */
    uint64_t blocked; /* signals */
};

/* With no calls but those that the dynamic linker makes itself; all is 0 where it cannot be read.
 */
struct process_status status_read(void);
struct process_status status_of_thread(uint32_t tid);

/* Has the process one thread? False where that is not known. */
bool status_is_alone(void);

#endif
