/* A module of a profile with its code, as the file has it, and which of its functions look above
 * their frame. */
#ifndef INFER_PATH_MODULE_H
#define INFER_PATH_MODULE_H

#include "edit/above.h"
#include "profile/profile.h"

struct path_module {
    bool is_there; /* the file is, and of the profile's build */
    struct elf_file file;
    struct map map;
    struct plan plan;
    struct above_finder finder;
};

/* Stays where it is until it is closed: the finder points to its parts. */
void path_module_open(const struct profile *profile, uint32_t module, struct map_cache *cache,
                      struct path_module *out);
void path_module_close(struct path_module *module);

#endif
