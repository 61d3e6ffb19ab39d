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

/* What the samples of an event stand for. */
struct perf_amounts {
    uint64_t counted;   /* with a context */
    uint64_t paused;    /* what the program did not want to be counted */
    uint64_t elsewhere; /* of no thread that is known */
};

struct perf_samples {
    struct server *server;
    struct perf_rings rings;
    VEC(struct perf_thread *) threads;
    VEC(struct perf_process *) processes; /* as the server's arenas; NULL: nothing yet */
    VEC(struct perf_exec) execs;
    VEC(struct perf_sample) ends; /* what threads did after their last sample */
    struct perf_amounts taken[PERF_MOST_EVENTS];
    uint64_t samples[PERF_MOST_EVENTS];
    uint64_t complete[PERF_MOST_EVENTS]; /* of those, whose stack was walked to its end */
    /* When it was last settled: */
    struct perf_count kernel[PERF_MOST_EVENTS]; /* what the kernel had counted, and */
    struct perf_amounts settled[PERF_MOST_EVENTS];
};

/* Values times `to` / `of`, one after the other: rounded so that their sum is that of the sum. */
struct perf_scale {
    uint64_t to, of;
    uint64_t sum, scaled_sum; /* of those before */
};

uint64_t perf_scale_next(struct perf_scale *scale, uint64_t value);

/* To be called when the rings are open. */
void perf_samples_begin(struct perf_samples *samples, struct server *server);
void perf_samples_end(struct perf_samples *samples);

/* Takes what is in the rings. To be called every few milliseconds. */
void perf_samples_read(struct perf_samples *samples);

/*
 * To be called before the results are taken. The samples of an event without a period are made to
 * come to what the kernel counted: those of each thread that has ended to its own count, where the
 * kernel tells it, and all together to that of all.
 */
void perf_samples_settle(struct perf_samples *samples);

/* Adds what is settled of a thread to its tree, which has a root. Nodes refer to it. */
void perf_samples_grow(const struct perf_samples *samples, const struct arena_header *arena,
                       const struct arena_thread *thread, struct grown_tree *tree);
bool perf_samples_has(const struct perf_samples *samples, const struct arena_header *arena,
                      const struct arena_thread *thread);

#endif
