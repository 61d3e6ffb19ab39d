/*
 * What a profile holds, as things with a hash of their content: the same on all hosts and in all
 * profiles. A thing's hash has those of what it refers to in it, up to the whole path of a context.
 */
#ifndef STORE_STORE_CONTENT_H
#define STORE_STORE_CONTENT_H

#include "base/key_set.h"
#include "profile/profile.h"
#include "store/store_db.h"

/* In the order in which they are stored: each refers to those before it only. */
enum content_kind {
    CONTENT_STRING,
    CONTENT_MODULE,
    CONTENT_FUNCTION,
    CONTENT_FRAME,
    CONTENT_ORIGIN,
    CONTENT_CONTEXT,
    CONTENT_KINDS
};

/* The different things of a kind. */
struct content_set {
    struct key_set hashes; /* numbers them */
    VEC(uint32_t) sources; /* by number: the first of them in the profile */
    uint32_t *ids;         /* by number: in the store; 0: not known yet */
};

struct content {
    const struct profile *profile;
    struct content_set sets[CONTENT_KINDS];
    /* Numbers, by index in the profile; of strings by offset. One more than it: 0 is none yet. */
    uint32_t *numbers[CONTENT_KINDS];
};

/* The profile, which must be valid, must outlive it. */
void content_open(struct content *content, const struct profile *profile);
void content_close(struct content *content);

/* The id of the thing at an index of the profile. */
uint32_t content_id(const struct content *content, enum content_kind kind, uint32_t index);

/* The table of a kind, and the fields of one row: id and hash first. */
const char *content_table(enum content_kind kind);
void content_row(const struct content *content, enum content_kind kind, uint32_t number,
                 struct wire *wire);

#endif
