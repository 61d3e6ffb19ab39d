/*
 * The nearest of many names to one that does not exist, for messages.
 */
#ifndef QUERY_NEAREST_H
#define QUERY_NEAREST_H

#include "base/error.h"

#include <stddef.h>

struct nearest {
    const char *wanted;
    char best[256]; /* "" when nothing was offered */
    size_t distance;
};

struct nearest nearest_to(const char *wanted);
void nearest_offer(struct nearest *nearest, const char *name);

/* "there is no NOUN 'wanted'; did you mean 'best'?"; returns CT_ERROR. */
int nearest_fail(const struct nearest *nearest, const char *noun, struct ct_error *err);

#endif
