#include "query/nearest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Names are compared as far as this: what comes later does not help anyone to find a typo. */
enum { COMPARED_MAX_BYTES = 64 };

struct nearest nearest_to(const char *wanted)
{
    return (struct nearest){.wanted = wanted, .distance = SIZE_MAX};
}

/* Edits from one to the other, each weighing 2; a change of case weighs 1. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[COMPARED_MAX_BYTES + 1];
    for (size_t k = 0; k <= b_length; k++)
        row[k] = 2 * k;
    for (size_t i = 1; i <= a_length; i++) {
        size_t corner = row[0];
        row[0] = 2 * i;
        for (size_t k = 1; k <= b_length; k++) {
            unsigned char x = (unsigned char)a[i - 1], y = (unsigned char)b[k - 1];
            size_t cost = x == y ? 0 : tolower(x) == tolower(y) ? 1 : 2;
            size_t best = corner + cost;
            corner = row[k];
            if (row[k] + 2 < best)
                best = row[k] + 2;
            if (row[k - 1] + 2 < best)
                best = row[k - 1] + 2;
            row[k] = best;
        }
    }
    return row[b_length];
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    size_t wanted_length = strnlen(nearest->wanted, COMPARED_MAX_BYTES);
    size_t length = strnlen(name, COMPARED_MAX_BYTES);
    size_t distance = edit_distance(nearest->wanted, wanted_length, name, length);
    /* A name that holds what was asked for is near, however long it is. */
    if (wanted_length >= 3 && strcasestr(name, nearest->wanted))
        distance = 1 + (length > wanted_length ? (length - wanted_length) / 8 : 0);
    if (!*name || distance >= nearest->distance)
        return;
    nearest->distance = distance;
    snprintf(nearest->best, sizeof nearest->best, "%s", name);
    for (char *c = nearest->best; *c; c++)
        if (iscntrl((unsigned char)*c))
            *c = '?'; /* the message is one line */
}

int nearest_fail(const struct nearest *nearest, const char *noun, struct ct_error *err)
{
    if (!*nearest->best)
        return ct_fail(err, "there is no %s '%s', nor any other", noun, nearest->wanted);
    return ct_fail(err, "there is no %s '%.200s'; the nearest is '%.200s'", noun, nearest->wanted,
                   nearest->best);
}
