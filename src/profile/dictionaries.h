/* The dictionaries of a profile that is being written: one behind the other, as in the file. */
#ifndef PROFILE_DICTIONARIES_H
#define PROFILE_DICTIONARIES_H

#include "base/vec.h"
#include "profile/profile.h"

struct dictionaries {
    VEC(uint8_t) bytes; /* the owner frees them */
};

/* False: there are too many. */
bool dictionaries_add(struct dictionaries *all, const struct ctp_dictionary *dictionary,
                      const void *bytes);

#endif
