/* Slices of a recording, carried to a store. */
#ifndef CLI_CARRY_H
#define CLI_CARRY_H

#include "record/record.h"

/* Sets who carries slices there. The address must stay as long as the recording. Fails in a build
 * without libpq, and for an address that cannot be right. */
int carry_to_store(struct record_slices *slices, const char *url, struct ct_error *err);

#endif
