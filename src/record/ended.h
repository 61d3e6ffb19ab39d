/*
 * Processes that have ended, when there are many: what a thousand of them measured becomes a part
 * of one profile (record/kept.h), in a process of its own, and their arenas go. So a recording
 * needs memory for what lives, and for the different contexts that there were, however long it
 * lasts.
 */
#ifndef RECORD_ENDED_H
#define RECORD_ENDED_H

#include "record/collect.h"

struct ended {
    pid_t maker;      /* of a part; 0: none */
    size_t not_ready; /* ended, but to be kept apart, when that was last looked at */
    bool is_off;
};

/* To be called when the server has looked around. */
void ended_look(struct ended *ended, const struct recording *recording);

/* Waits for the part that is being made. */
void ended_wait(struct ended *ended, const struct recording *recording);

#endif
