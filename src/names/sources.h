/*
 * Where code comes from: for places of one module, the function, file, line and column, and what
 * was inlined there.
 *
 * The records are those of a profile, with strings in a pool of their own: a run of lines for each
 * place, the innermost inlined function first, the function that holds the place last.
 */
#ifndef NAMES_SOURCES_H
#define NAMES_SOURCES_H

#include "base/strings.h"
#include "profile/ctp_format.h"

struct source_place {
    uint64_t offset; /* in the module */
    uint32_t first_line;
    uint32_t line_count; /* 0: nothing is known of it */
};

struct sources {
    struct string_pool strings;
    VEC(struct ctp_function) functions; /* `module` means nothing here */
    VEC(struct ctp_line) lines;
    VEC(struct source_place) places; /* sorted by offset, each once */
};

void sources_init(struct sources *sources);
void sources_free(struct sources *sources);

/* The place with this offset, or NULL. */
const struct source_place *sources_find(const struct sources *sources, uint64_t offset);

/* Adds all of `more`, whose places are none of those that are there. */
void sources_join(struct sources *sources, const struct sources *more);

#endif
