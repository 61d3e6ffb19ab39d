/*
 * The samples of perf events: each stack is walked here, from the copy that the kernel made, and
 * counted in a tree of its thread.
 */
#ifndef RECORD_PERF_SAMPLES_H
#define RECORD_PERF_SAMPLES_H

#include "record/grow.h"
#include "record/perf_ring.h"
#include "record/server.h"

struct perf_thread;
struct perf_process;

struct perf_exec {
    uint32_t pid;
    uint64_t time_ns;
};

struct perf_samples {
    struct server *server;
    struct perf_rings rings;
    VEC(struct perf_thread *) threads;
    VEC(struct perf_process *) processes; /* as the server's arenas; NULL: nothing yet */
    VEC(struct perf_exec) execs;
    uint64_t counted[PERF_MOST_EVENTS]; /* what the samples with a context stand for */
    uint64_t paused[PERF_MOST_EVENTS];  /* what the program did not want to be counted */
    uint64_t samples[PERF_MOST_EVENTS];
    uint64_t complete[PERF_MOST_EVENTS]; /* of those, whose stack was walked to its end */
};

/* To be called when the rings are open. */
void perf_samples_begin(struct perf_samples *samples, struct server *server);
void perf_samples_end(struct perf_samples *samples);

/* Takes what is in the rings. To be called every few milliseconds. */
void perf_samples_read(struct perf_samples *samples);

/* Adds what is known of a thread to its tree, which has a root. Nodes refer to it. */
void perf_samples_grow(const struct perf_samples *samples, const struct arena_header *arena,
                       const struct arena_thread *thread, struct grown_tree *tree);
bool perf_samples_has(const struct perf_samples *samples, const struct arena_header *arena,
                      const struct arena_thread *thread);

#endif
