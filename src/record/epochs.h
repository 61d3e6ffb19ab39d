/* The phases that programs have named, as epochs of the profile: one for each name. */
#ifndef RECORD_EPOCHS_H
#define RECORD_EPOCHS_H

#include "base/key_set.h"
#include "base/vec.h"
#include "profile/profile.h"
#include "record/arena_view.h"

struct epochs {
    struct profile_writer *writer;
    struct key_set names;   /* as strings of the profile, in the order of its epochs */
    struct key_set numbers; /* of the phases of the current arena, and */
    VEC(const struct arena_phase *) phases; /* what it says of each */
};

void epochs_begin(struct epochs *epochs, struct profile_writer *writer);
void epochs_end(struct epochs *epochs);

/* What the numbers mean from here on. */
void epochs_begin_arena(struct epochs *epochs, const struct arena_view *view);

/* The epoch of a phase; of a number that the arena does not know, the one without a name. */
uint32_t epoch_for(struct epochs *epochs, const struct arena_view *view, uint32_t number);

#endif
