/* Before the program starts: the maps of its modules, so that it need not wait for them, and what
 * its modules say of it. */
#ifndef RECORD_PREPARE_H
#define RECORD_PREPARE_H

#include <stdbool.h>

/* Where the program's memory comes from. */
struct program_memory {
    bool has_malloc;       /* a malloc of its own, which stand-ins cannot get in front of */
    bool has_new_operator; /* a library has both malloc and operator new: jemalloc, tcmalloc */
};

/*
 * Makes the maps, and with engine exact the edit plans, that are not in the cache yet, of the
 * program at `path` and of the libraries that it is linked with, on all processors. What cannot be
 * made now is no error: the server tries again when the program asks for it.
 */
void prepare_maps(const char *path, bool with_plans);

/* Asks the program and the libraries that it is linked with. */
struct program_memory prepare_memory(const char *path);

#endif
