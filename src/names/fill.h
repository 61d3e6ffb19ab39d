/*
 * Fills in the names of a profile that is being written: for every frame that has no lines yet, the
 * source position and what was inlined there; for functions without a name or a declaration, these.
 *
 * Modules are worked on side by side. What is known from before comes from the cache.
 */
#ifndef NAMES_FILL_H
#define NAMES_FILL_H

#include "names/debug_info.h"
#include "profile/profile.h"

struct fill_result {
    uint32_t places;  /* frames that were looked up */
    uint32_t located; /* of those, frames whose source was found */
    uint32_t modules; /* that hold them */
    uint32_t without; /* of those, modules for which there is no debug information */
};

/* Only a file of another build in one of the folders is an error; the profile is then as it was. */
int names_fill(struct profile_writer *writer, const struct debug_folders *folders,
               struct fill_result *result, struct ct_error *err);

/* The same for a profile that is a file. `to` may be the same path: it is replaced when all is
 * done. */
int names_fill_file(const char *from, const char *to, const struct debug_folders *folders,
                    struct fill_result *result, struct ct_error *err);

#endif
