/* What /proc says of a process, in this process's own namespace. */
#ifndef RECORD_PROCESS_STATE_H
#define RECORD_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>

struct process_state {
    char state;
    unsigned parent;
    unsigned long utime, stime; /* in clock ticks */
    unsigned long threads;
    unsigned long long start; /* clock ticks since the machine started */
};

bool process_read_state(uint64_t pid, struct process_state *out);

/* What runs in it, as long as it is there: `out` has ARENA_PROGRAM_BYTES. */
void process_program(uint64_t pid, char *out);

/* A process that is ending gives its memory back before anything else can be seen of its end. */
bool process_has_memory(uint64_t pid);

#endif
