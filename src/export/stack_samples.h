/*
 * When the samples of an export came, where the profile says so.
 */
#ifndef EXPORT_STACK_SAMPLES_H
#define EXPORT_STACK_SAMPLES_H

#include "export/stacks.h"

struct stack_sample {
    uint32_t thread, node; /* of the tree */
    uint64_t start_ns;     /* since the recording's start; it lasts as long as its value */
    uint64_t value;        /* of the first metric */
};

struct stack_samples {
    VEC(struct stack_sample) items; /* by thread, then by time */
};

/*
 * All that the first metric has, one sample behind the other in each thread: a sample is behind
 * what it stands for, and what has no time is behind all that has one. False: the metric has no
 * times.
 */
bool stack_samples_find(const struct stacks *stacks, struct stack_samples *out);
void stack_samples_free(struct stack_samples *samples);

/* Those of a thread: indices [first, end). */
struct profile_range stack_samples_of(const struct stack_samples *samples, uint32_t thread);

#endif
