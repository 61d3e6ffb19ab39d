/*
 * A line that says how far long work is, on a terminal and only there. It appears when the work has
 * taken half a second, and is gone when the work is done.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what;
    uint64_t total, done;
    uint64_t next_ns; /* when it is drawn again */
    bool is_terminal, shown;
    pthread_mutex_t lock;
};

void progress_begin(struct progress *progress, const char *what, uint64_t total);
void progress_add(struct progress *progress, uint64_t done); /* from any thread */
void progress_end(struct progress *progress);

#endif
