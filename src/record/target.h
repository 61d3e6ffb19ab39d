/* The program that is to be recorded: where it is, and whether it can be. */
#ifndef RECORD_TARGET_H
#define RECORD_TARGET_H

#include "base/error.h"
#include "elf/program_kind.h"

#include <stdbool.h>

/*
 * Finds the program as a shell would and checks that the runtime can get into it. `path` is to be
 * freed. A script is fine: its interpreter is what is recorded, and is checked instead.
 */
int target_find(const char *name, char **path, struct ct_error *err);

/* How a program can be recorded. */
struct target_ways {
    enum program_kind kind;
    bool inside;  /* with the runtime in it, though it may be better not to be there */
    bool outside; /* without */
};

/* The two halves of it: finds a program that can be run; and says why the runtime cannot get into
 * it, or had better not. */
int target_locate(const char *name, char **path, struct ct_error *err);
int target_check_host(const char *path, struct target_ways *ways, struct ct_error *err);

/* The ELF file that runs: the program itself, or the interpreter of a script. To be freed. */
char *target_elf(const char *path);

#endif
