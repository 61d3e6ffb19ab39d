/*
 * What was found, for people: wrong walks in full, and everything counted by the place where the
 * walk left the truth.
 */
#ifndef STEP_REPORT_H
#define STEP_REPORT_H

#include "step_modules.h"
#include "step_truth.h"

#include <stdio.h>

enum finding_kind {
    FOUND_WRONG,
    FOUND_INCOMPLETE,
    FOUND_AHEAD,    /* the walk named the frames that the code was about to jump to */
    FOUND_FAST,     /* a faster walk gave something else than the plain one */
    FOUND_REPLACED, /* the program has overwritten what frames on the way had saved */
    FOUND_KINDS
};

struct finding {
    enum finding_kind kind;
    enum walk_end end;
    char *module;
    char *function;
    uint64_t count;
    uint64_t first_step;
    char *example; /* the place and the instruction, the first time */
};

enum { RECENT_FINDINGS = 1024 };

struct findings {
    VEC(struct finding) items;
    uint64_t totals[FOUND_KINDS];
    /* Where a pc was counted last: describing a place costs far more than a step. */
    struct {
        uint64_t pc;
        size_t item;
    } recent[RECENT_FINDINGS];
};

/* A walk and what it was compared with. */
struct comparison {
    pid_t pid;
    uint64_t step;
    const char *program;
    const struct step_modules *modules;
    const struct user_regs_struct *regs;
    const struct truth *truth;
    struct walk_memory memory; /* as the walk got it */
    const struct walk_frame *frames;
    uint32_t count;      /* of frames */
    uint32_t good_count; /* of those, the ones that are right */
    enum walk_end end;
};

/* Frame `index` of the true stack as the walker should give it. False behind the last one. */
bool true_frame(const struct comparison *c, size_t index, struct walk_frame *out);

/* Counts; returns true the first time that this kind is found at this place. */
bool findings_add(struct findings *findings, enum finding_kind kind, const struct comparison *c);

/* Counts the walks that were held back under one finding. */
void findings_add_more(struct findings *findings, const struct finding *like, uint64_t count);

/* A finding that is not counted yet; the caller frees it with finding_free. */
struct finding finding_make(enum finding_kind kind, const struct comparison *c);
void finding_free(struct finding *finding);

void report_wrong(FILE *out, const struct comparison *c);
void report_findings(FILE *out, const struct findings *findings, enum finding_kind kind,
                     uint64_t compared);
void findings_free(struct findings *findings);

#endif
