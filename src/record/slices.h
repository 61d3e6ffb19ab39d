/*
 * Recording in slices (--every). A slice is what was measured since the one before it: a snapshot
 * of all since the start is made as for SIGUSR2, and the last one is subtracted (profile/slice.h).
 *
 * The supervisor makes snapshots; the rest is done by a process for each slice, so that arenas do
 * not wait for it. A slice appears in its folder under a name that begins with its time, when it is
 * complete. Only then its snapshot becomes the one that the next slice is counted from; so a slice
 * that could not be written is in the next one, and nothing is lost or counted twice.
 */
#ifndef RECORD_SLICES_H
#define RECORD_SLICES_H

#include "record/collect.h"

/* Files of such a name, in the folder of a recording, are snapshots. */
#define SLICES_PREFIX "slices."

struct slices {
    const struct record_options *options;
    char *base, *latest; /* snapshots: the one that was subtracted last, and the newest */
    uint64_t start_ns;   /* of the current slice, since 1970 */
    uint64_t latest_ns;  /* when the newest snapshot was made */
    double next_s;
    pid_t maker; /* of a slice; 0: none */
    pid_t carrier;
    int wake;       /* of the carrier */
    bool is_warned; /* that a slice could not be written */
};

/* Makes sure that the folder can be written, and starts the carrier, if there is one. */
int slices_begin(struct slices *slices, const struct record_options *options,
                 const struct server *server, struct ct_error *err);

/* Is it time for a slice? Also looks after the one that is being made. To be called often. */
bool slices_due(struct slices *slices, struct server *server);

/* Makes a snapshot, and has a slice made of it. */
void slices_take(struct slices *slices, struct recording *recording);

/* The last slice, and then the end; waits for the carrier. On failure the snapshots stay. */
int slices_end(struct slices *slices, struct recording *recording, struct ct_error *err);

/* In a folder that was left behind: were there slices? */
bool slices_are_left(const char *folder);

/* In a folder that was left behind: subtracts what is in slices from a profile that was recovered,
 * if there were any. */
int slices_recover(const char *folder, const char *output, struct ct_error *err);

#endif
