/*
 * The calls of a profile as a forest, for tests and measurements: a calling context tree, or the
 * k-slab forest that the program would have built. Below a gap, chains of callers begin anew.
 */
#ifndef TESTS_PROFILE_FOREST_H
#define TESTS_PROFILE_FOREST_H

#include "base/strings.h"
#include "cct/contexts.h"
#include "cct/region.h"
#include "profile/profile.h"

/* What these functions cannot do ends the program, with a line on stderr. */

/* Opens a profile and looks at all of it. */
void open_profile(const char *path, struct profile *out);

/* The metric of calls: their number for each node. */
const uint64_t *calls_of(const struct profile *p);

/* An empty forest, hashed, with one metric. */
void begin_forest(struct forest *forest, struct region *region, uint32_t k);

struct profile_forest_options {
    uint32_t k;
    uint32_t process;           /* or CTP_NONE: all of them */
    bool by_function;           /* labels are functions; otherwise places in the code */
    struct string_pool *places; /* profiles that share it have the same labels for the same */
};

void build_from_profile(const struct profile *p, const struct profile_forest_options *options,
                        struct contexts *out);

#endif
