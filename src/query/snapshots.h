/*
 * Snapshots of calling contexts (include/calltrail.h), decoded by the dictionaries of a profile.
 * Neither the snapshot nor the profile is trusted: what does not fit is an error, never a wrong
 * path.
 */
#ifndef QUERY_SNAPSHOTS_H
#define QUERY_SNAPSHOTS_H

#include "base/vec.h"
#include "encoding/dictionary.h"
#include "encoding/snapshot_text.h"
#include "profile/profile.h"

/* A dictionary that was read for one numbering. */
struct read_dictionary {
    const struct ctp_dictionary *of; /* NULL: none */
    uint32_t numbering;
    enum dictionary_status status;
    struct dictionary dictionary;
    VEC(void *) memory;
};

enum { READ_DICTIONARIES = 16 };

struct snapshots {
    const struct profile *profile;
    struct read_dictionary read[READ_DICTIONARIES];
    unsigned next; /* is read over the oldest one */
};

/* The profile's dictionaries are verified. */
int snapshots_begin(struct snapshots *snapshots, const struct profile *profile,
                    struct ct_error *err);
void snapshots_end(struct snapshots *snapshots);

enum snapshot_place {
    PLACE_HERE,   /* where it was taken */
    PLACE_CALL,   /* the call is what ends just before it */
    PLACE_TAIL,   /* a jump that was its function's last call */
    PLACE_SIGNAL, /* where a signal interrupted */
    PLACE_TASK,   /* where work was handed over: what follows is another thread's */
    PLACE_GAP     /* what follows is not known */
};

struct snapshot_call {
    enum snapshot_place place;
    uint32_t frame; /* CTP_NONE: not known. Of PLACE_HERE, if nothing better is known, that of the
                       function */
    uint64_t bytes; /* PLACE_HERE: how far behind the frame's offset it is */
};

struct snapshot_path {
    VEC(struct snapshot_call) calls; /* innermost first */
    uint64_t key;                    /* as ct_key has it */
};

/* Starts as zeros; the caller frees `calls`. */
int snapshot_decode(struct snapshots *snapshots, const struct snapshot_text *snapshot,
                    struct snapshot_path *path, struct ct_error *err);

#endif
