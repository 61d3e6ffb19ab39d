/* The program that is to be recorded: where it is, and whether it can be. */
#ifndef RECORD_TARGET_H
#define RECORD_TARGET_H

#include "base/error.h"

#include <stdbool.h>

/*
 * Finds the program as a shell would and checks that the runtime can get into it. `path` is to be
 * freed. A script is fine: its interpreter is what is recorded, and is checked instead.
 */
int target_find(const char *name, char **path, struct ct_error *err);

/*
 * The two halves of it: finds a program that can be run; and says why the runtime cannot get into
 * it. `from_outside`: it can be recorded without.
 */
int target_locate(const char *name, char **path, struct ct_error *err);
int target_check_host(const char *path, bool *from_outside, struct ct_error *err);

/* The ELF file that runs: the program itself, or the interpreter of a script. To be freed. */
char *target_elf(const char *path);

#endif
