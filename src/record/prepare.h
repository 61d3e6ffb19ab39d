/* Before the program starts: the maps of its modules, so that it need not wait for them, and what
 * its modules say of it. */
#ifndef RECORD_PREPARE_H
#define RECORD_PREPARE_H

#include "base/vec.h"

#include <stdbool.h>

/* Paths: the program, and then the libraries that it is linked with. */
struct program_modules {
    VEC(char *) paths;
};

struct program_modules prepare_list(const char *path);
void prepare_free(struct program_modules *modules);

struct plan_kind;

/*
 * Makes the maps, and for engines that edit the edit plans, that are not in the cache yet, on all
 * processors. What cannot be made now is no error: the server tries again when the program asks for
 * it.
 */
void prepare_maps(const struct program_modules *modules, const struct plan_kind *plans);

/* Where the program's memory comes from. */
struct program_memory {
    bool has_malloc;       /* a malloc of its own, which stand-ins cannot get in front of */
    bool has_new_operator; /* a library has both malloc and operator new: jemalloc, tcmalloc */
};

struct program_memory prepare_memory(const struct program_modules *modules);

#endif
