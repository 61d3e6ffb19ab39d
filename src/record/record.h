/*
 * Recording: starts a program with the runtime in it, serves what the runtime asks for, and makes
 * one profile of what it measured.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/error.h"
#include "record/perf_names.h"
#include "runtime/arena_format.h"

#include <stdbool.h>
#include <stdint.h>

struct record_options {
    const char *output;
    uint64_t rate_hz;
    struct arena_events events; /* nothing: user CPU time */
    struct perf_wanted perf;
    bool follow;
    bool verify;
    bool no_lines; /* function names only: debug information is not read */
    bool trampoline;
    bool exact;          /* count every call in its context; the rest is about that */
    const char *modules; /* a glob for the modules whose calls are counted; NULL: all */
    bool fold_recursion;
    bool height;
    uint64_t max_nodes; /* 0: as many as there is room for */
    uint32_t k;         /* callers of each call that are kept, at least; 0: all */
    const char *trace;  /* where every call goes, too; NULL: nowhere */
    uint64_t burst_ns,
        burst_period_ns; /* calls are counted for so long in each period; 0: always */
    double delay_s;      /* before the first sample */
    double duration_s;   /* of sampling; 0: to the end */
    char **command;      /* the program and its arguments; ends with NULL */
};

/* Runs the program to its end. `exit_status` is what the shell would have seen. */
int record_run(const struct record_options *options, int *exit_status, struct ct_error *err);

/* Makes the profile from what a supervisor that was killed has left in its folder. */
int record_recover(const char *folder, const char *output, struct ct_error *err);

#endif
