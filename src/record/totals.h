/* What was counted, of one process or of all, and the facts that a profile has of it. */
#ifndef RECORD_TOTALS_H
#define RECORD_TOTALS_H

#include "profile/profile.h"
#include "record/engine.h"
#include "runtime/arena_format.h"

struct totals {
    uint64_t samples, complete, guessed; /* of walks: those with a frame that is a guess */
    uint64_t cut_by_window;              /* of samples from outside */
    uint64_t walked, checked, differ, lost, merged, threads_not_sampled;
    uint64_t differ_by_cfi, differ_by_frame_pointers; /* of those that differ */
    uint64_t sites, sites_not_edited, modules_not_edited, functions_not_edited,
        unknown_bytes;            /* of the editor */
    uint64_t engine[ENGINE_SUMS]; /* the engine's own */
    uint64_t handler_ticks;
    uint64_t arena_bytes;
    uint64_t histogram[ARENA_HISTOGRAM]; /* of the handler's time, in ticks */
    double utime_s, stime_s;
};

void totals_add_thread(struct totals *sum, const struct arena_thread *thread);
void totals_add(struct totals *sum, const struct totals *part);

/* What kinds of facts there are. */
struct fact_kinds {
    bool samples;                /* at this rate: */
    bool is_whole;               /* samples are of all the CPU time that is known */
    double rate_hz;              /* as asked */
    const struct server *server; /* whose engine has some, too */
    double ticks_per_ns;         /* of the time stamp counter */
};

void totals_write(const struct totals *totals, const struct fact_kinds *kinds,
                  struct profile_writer *writer, enum ctp_scope scope, uint32_t index);

#endif
