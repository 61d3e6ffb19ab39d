/*
 * Programs that cannot host the runtime, started by processes that do: they are recorded from
 * outside, into the same profile. Rings and events are made when the first of them comes.
 */
#ifndef RECORD_OUTSIDE_CHILDREN_H
#define RECORD_OUTSIDE_CHILDREN_H

#include "record/outside/outside.h"
#include "record/record.h"

struct outside_children {
    struct server_outsiders hooks; /* the server's, while this lives */
    struct outside_wanted wanted;
    struct outside outside;
    bool verify;
    bool has_begun;     /* there are rings */
    unsigned not_taken; /* processes that could not be recorded, and */
    struct ct_error why;
};

/* From now on, if what is measured can be had from outside. */
void outside_children_begin(struct outside_children *children, struct server *server,
                            const struct record_options *options);

/* Takes what is in the rings. To be called every few milliseconds; `all`: at the end. */
void outside_children_read(struct outside_children *children, bool all);

/* Samples count from now on; or no more. */
void outside_children_pause(struct outside_children *children, bool paused);

/* On stderr, at the end. */
void outside_children_say_what_is_missing(const struct outside_children *children);

void outside_children_end(struct outside_children *children);

#endif
