/*
 * Stepping a program: from its first instruction, or in windows somewhere in the middle.
 */
#ifndef STEP_RUN_H
#define STEP_RUN_H

#include "step_compare.h"
#include "step_tracee.h"

struct run_options {
    struct launch launch;
    const char *from;      /* the function where stepping begins, or NULL: the first instruction */
    uint64_t step_limit;   /* 0: none */
    uint64_t skip_steps;   /* not compared at the beginning */
    uint64_t every;        /* compare one step of so many */
    uint64_t max_wrong;    /* stop behind so many wrong walks; 0: never */
    uint64_t window_steps; /* 0: step from the first instruction */
    uint64_t windows;
    uint64_t after_ms; /* a window begins within so much processor time */
    uint64_t seed;
    bool quiet;
};

struct run {
    struct run_options options;
    struct step_modules modules;
    struct decode_cache decoded;
    struct comparer comparer;
    struct stack_mirror mirror;
    uint64_t steps;
    uint64_t ret_jumps, redirected; /* see struct truth */
    uint64_t trouble;               /* of the oracle itself */
};

/* Runs to the end, or to a limit. Fails only if the program cannot be run or examined at all. */
int run_program(struct run *run, struct ct_error *err);

#endif
