/*
 * Recording: starts a program with the runtime in it, serves what the runtime asks for, and makes
 * one profile of what it measured.
 */
#ifndef RECORD_RECORD_H
#define RECORD_RECORD_H

#include "base/error.h"
#include "base/vec.h"
#include "record/engine.h"
#include "record/job.h"
#include "record/perf_names.h"
#include "runtime/arena_format.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Recording in slices: a profile for each so many seconds, in a folder. */
struct record_slices {
    double every_s;        /* 0: no slices, but one profile */
    const char *folder;    /* where they go */
    uint64_t folder_bytes; /* that they may have there */
    char *const *labels;   /* key=value of each; ends with NULL */
    /*
     * Takes them from there to somewhere else, in a process of its own: the descriptor has a byte
     * for each that is new, and ends when there will be no more. NULL: they stay, and the oldest go
     * when there are too many. Returns how many are left.
     */
    unsigned (*carry)(const void *context, const char *folder, uint64_t bytes, int wake);
    const void *carry_context;
};

struct record_options {
    const char *output;
    struct job job; /* where it runs */
    uint64_t rate_hz;
    struct arena_events events; /* nothing: user CPU time */
    struct perf_wanted perf;
    bool follow;
    bool verify;
    bool no_times; /* when samples came is not kept */
    bool no_lines; /* function names only: debug information is not read */
    const struct record_engine *engine;
    const void *engine_options; /* its own */
    double delay_s;             /* before the first sample */
    double duration_s;          /* of sampling; 0: to the end */
    char **command;             /* the program and its arguments; ends with NULL */
    bool outside;               /* no runtime gets into the program */
    struct record_pids {
        VEC(pid_t) items;
    } pids; /* processes that run already, instead of a program */
    struct record_slices slices;
    uint64_t window_bytes; /* of the stack, from outside, */
    bool has_window;       /* if it is not as usual */
};

/* Runs the program to its end. `exit_status` is what the shell would have seen. */
int record_run(const struct record_options *options, int *exit_status, struct ct_error *err);

/* Makes the profile from what a supervisor that was killed has left in its folder. */
int record_recover(const char *folder, const char *output, struct ct_error *err);

#endif
