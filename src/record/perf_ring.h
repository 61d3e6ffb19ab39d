/*
 * Events of the kernel, read from outside. Many of them happen while the program is in a system
 * call, where a signal would end the call early; so the program gets none. The kernel writes each
 * sample, with the registers and the top of the stack that the program has in user mode, into a
 * ring of the processor that it happens on, and the supervisor reads it from there.
 */
#ifndef RECORD_PERF_RING_H
#define RECORD_PERF_RING_H

#include "base/error.h"
#include "base/key_set.h"
#include "base/vec.h"
#include "record/perf_names.h"

#include <stddef.h>
#include <sys/types.h>

/* How an event could be had. */
struct perf_event_got {
    bool user_only;   /* what happens in the kernel may not be seen */
    uint32_t precise; /* perf_event_attr's precise_ip */
    bool has_counts;  /* samples say what was counted, not the period that was meant */
    uint64_t lost;    /* samples for which the ring had no room */
};

struct perf_rings {
    const struct perf_wanted *wanted;
    struct perf_event_got got[PERF_MOST_EVENTS];
    unsigned cpu_count;
    struct perf_ring *rings;     /* of each processor */
    struct key_set streams;      /* an event of a thread on a processor, and */
    VEC(uint64_t) stream_counts; /* what its last sample said, of each */
};

struct perf_sample {
    uint32_t event; /* index */
    uint32_t pid, tid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    uint64_t period;  /* that it stands for */
    const uint64_t
        *registers;    /* by the numbers of asm/perf_regs.h, without the segments; or NULL */
    const void *stack; /* from the stack pointer on */
    uint64_t stack_bytes;
};

/* How PERF_REG_X86_* are found in perf_sample's registers. */
enum { PERF_REGISTER_BEFORE_R8 = 9 };

/* Opens the events for a process that has not called exec yet, and for whatever it starts. */
int perf_rings_open(struct perf_rings *rings, const struct perf_wanted *wanted, pid_t pid,
                    bool follow, bool paused, uint64_t rate_hz, struct ct_error *err);
void perf_rings_close(struct perf_rings *rings);

/* Descriptors that are readable when many samples wait; returns how many. */
unsigned perf_rings_descriptors(const struct perf_rings *rings, int *descriptors, unsigned room);

void perf_rings_pause(struct perf_rings *rings, bool paused);

struct perf_visitor {
    void (*exec)(void *context, uint32_t pid, uint64_t time_ns);
    void (*sample)(void *context, const struct perf_sample *sample);
    /* What a thread that has ended did since its last sample: without registers and a stack. */
    void (*end)(void *context, const struct perf_sample *rest);
    void *context;
};

/* Visits all that waits: first who has called exec, then the samples. */
void perf_rings_read(struct perf_rings *rings, const struct perf_visitor *visitor);

/*
 * What the kernel has counted, with or without a sample. Where counters were shared, it counted
 * for a part of the time (`running` of `enabled`) and the number is what that comes to in all.
 */
struct perf_count {
    uint64_t count, enabled_ns, running_ns;
};

/* Of an event on several processors, or the counts of several; `shared`: of counters that may be.
 */
struct perf_count perf_count_sum(const struct perf_count *each, unsigned count, bool shared);

struct perf_count perf_rings_count(const struct perf_rings *rings, uint32_t event);

#endif
