/*
 * Advice: what is wrong with the data of a profile, and what to do next, by what was seen in it.
 */
#ifndef REPORT_ADVICE_H
#define REPORT_ADVICE_H

#include "query/view.h"

struct advice_line {
    bool bad; /* the numbers may mislead; else there is more to be seen by other means */
    char text[256];
};

struct advice {
    VEC(struct advice_line) lines; /* what helps most first */
};

/* Free it with vec_free(&advice.lines). */
struct advice advice_about(const struct view *view);

#endif
