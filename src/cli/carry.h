/* Slices of a recording, carried to a store. */
#ifndef CLI_CARRY_H
#define CLI_CARRY_H

#include "record/record.h"

struct carry_labels {
    VEC(char *) items; /* key=value */
};

/* Sets who carries slices there. All that is given must stay as long as the recording. Fails in a
 * build without libpq, and for an address that cannot be right. */
int carry_to_store(struct record_slices *slices, const char *url, const struct carry_labels *labels,
                   struct ct_error *err);

#endif
