/*
 * The modules of a traced process: every file with an executable mapping, and the vdso, each with a
 * map made by map_build(), in the table that the walker takes.
 */
#ifndef STEP_MODULES_H
#define STEP_MODULES_H

#include "base/error.h"
#include "base/vec.h"
#include "map/map.h"
#include "unwind/walk.h"

#include <elf.h>
#include <sys/types.h>

/* A file that has been seen, and its map. Lives as long as the driver. */
struct module_file {
    char *path;
    const char *name; /* the path's last part */
    uint64_t device, inode;
    VEC(Elf64_Phdr) loads;
    struct map map;
    bool has_map;
    char *map_bytes; /* of a map that is not in a file */
};

struct step_modules {
    VEC(struct module_file *) files;
    VEC(struct walk_module) loaded;         /* sorted by address */
    VEC(struct module_file *) loaded_files; /* in the same order */
    uint32_t generation;
    const char *cache_folder; /* where maps are kept between runs, or NULL */
};

/* Reads the process's mappings again. A file that no map can be made of is named on stderr. */
int modules_refresh(struct step_modules *modules, pid_t pid, struct ct_error *err);
void modules_free(struct step_modules *modules);

struct walk_modules modules_table(const struct step_modules *modules);

/* The address of a function of the program itself, by its name; 0 if there is none. */
uint64_t modules_find(const struct step_modules *modules, pid_t pid, const char *function);

/* Whether [start, start + size) touches a loaded module. */
bool modules_overlap(const struct step_modules *modules, uint64_t start, uint64_t size);

/* Where a pc lies, for people. A return address belongs to the function of the byte before it. */
struct module_place {
    const char *module;   /* "?" outside all modules */
    uint64_t offset;      /* virtual address in the module's file */
    const char *function; /* "" if no function is known there */
    uint64_t function_offset;
};

struct module_place modules_place(const struct step_modules *modules, uint64_t pc, bool is_return);

#endif
