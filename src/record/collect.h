/* Arenas to profile: what was measured, with names, as one .ctp. */
#ifndef RECORD_COLLECT_H
#define RECORD_COLLECT_H

#include "record/perf_samples.h"
#include "record/record.h"
#include "record/server.h"

struct recording {
    const struct record_options *options;
    struct server *server;
    struct perf_samples *perf; /* NULL: no perf events */
    const char *program;       /* path */
    bool is_written;           /* a snapshot, which the profile then replaces */
    const char *snapshot;      /* where it goes instead; NULL: to the output */
    struct slices *slices;     /* NULL: one profile at the end */
    bool for_slice;            /* contexts that are in slices already may be missing */
    bool is_over;              /* nothing is measured any more: a terminal is told of progress */
    int wait_status;           /* of the first process */
    bool has_usage;            /* CPU time of it and of the children that it waited for */
    double utime_s, stime_s;
    double ticks_per_ns; /* of the time stamp counter */
    bool is_part;        /* some of the processes, which have ended; the others are elsewhere */
    uint64_t start_ns;   /* of such a part: when the recording began */
};

int collect_profile(const struct recording *recording, struct ct_error *err);

#endif
