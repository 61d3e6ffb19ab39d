/*
 * Exports: profiles in the formats of other tools. docs/exports.md says what each of them holds and
 * what it loses.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "export/stacks.h"

#include <stdio.h>

struct export_format {
    const char *name;
    const char *about; /* for --help */
    bool binary;       /* nothing for a terminal */
    bool all_metrics;
    bool one_frame_for_inlined; /* the format has inlined functions within a frame */
    enum stack_identity identity;
    uint64_t greatest; /* total that the format can hold */
    const char *loses; /* what a user must be told each time, or NULL */

    /* Errors of the stream are the caller's to ask for; others are returned. */
    int (*write)(const struct stacks *stacks, FILE *out, struct ct_error *err);
};

/* All of them; the last has no name. */
extern const struct export_format export_formats[];

/* The format of this name, or NULL. */
const struct export_format *export_find(const char *name);

struct export_options {
    const char *metric; /* name; NULL: the first */
    bool threads;
    bool no_inline;
    bool no_demangle;
};

int export_profile(const struct profile *profile, const struct export_format *format,
                   const struct export_options *options, FILE *out, struct ct_error *err);

/* The formats, each in a file of its own. */
int export_folded(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_pprof(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_speedscope(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_callgrind(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_firefox(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_chrome(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_sqlite(const struct stacks *stacks, FILE *out, struct ct_error *err);
int export_json(const struct stacks *stacks, FILE *out, struct ct_error *err);

#endif
