/* The modules of the process, as walks and engines see them. */
#ifndef RUNTIME_MODULES_H
#define RUNTIME_MODULES_H

#include "unwind/walk.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes the set of modules new from what the dynamic linker has loaded. */
void modules_refresh(void);

/* Has the dynamic linker call modules_refresh whenever it has loaded or unloaded something. */
void modules_watch(void);

/* The linker's code is its own again; what is loaded from now on is not known. The thread that
 * holds the code calls this last: a thread that unloads a module must not get past. */
void modules_unwatch(void);

/* Holds the code of all modules as it is: none comes or goes meanwhile, and no other thread puts
 * it back. False: not now; the linker is at work, or another thread. */
bool modules_hold(void);
void modules_let_go(void);

/* Another number for another set of modules. */
extern _Atomic uint32_t modules_generation;

/* What a module is to us. Return addresses are only replaced in the program's functions. */
enum module_role { ROLE_PROGRAM, ROLE_OURS, ROLE_LINKER, ROLE_UNWINDER };
enum module_role modules_role(const struct walk_modules *set, uint32_t index);

/* The arena's id of a module of the current set. */
uint32_t modules_id(const struct walk_modules *set, uint32_t index);

/* The start of the function that holds an address, cold parts counting as their function's; the
 * address itself where nothing is known. */
uint64_t modules_function(const struct walk_modules *set, uint64_t address);

/* The name of the function that holds an address; NULL: it has none, or the module is not known. It
 * is there as long as the module is. */
const char *modules_function_name(const struct walk_modules *set, uint64_t address);

/* The index of the module that holds an address, or UINT32_MAX. */
uint32_t modules_find(const struct walk_modules *set, uint64_t address);

#endif
