/*
 * Branches of trees, in letters: one row after the other.
 */
#ifndef REPORT_DRAWING_H
#define REPORT_DRAWING_H

#include "query/outline.h"
#include "report/terminal.h"

/* Steps to the right that are drawn; deeper ones are cut on the left. */
enum { DRAWING_STEPS = 12, DRAWING_BYTES = (DRAWING_STEPS + 3) * 8 };

struct drawing {
    const struct outline *outline;
    bool unicode;
    uint32_t steps_max;
    VEC(bool) bars;  /* at each step, whether the branch goes on below */
    uint32_t *steps; /* by row: the steps that its children inherit */
};

void drawing_begin(struct drawing *drawing, const struct outline *outline,
                   const struct terminal *terminal);
void drawing_end(struct drawing *drawing);

/* The branches before a row, into DRAWING_BYTES. Rows come in order. */
void drawing_row(struct drawing *drawing, uint32_t index, char *text);

#endif
