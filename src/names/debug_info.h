/*
 * Finds the debug information of a module: in its own file, or in a separate one, which belongs to
 * it if it has the same build-id.
 *
 * Looked at, in this order: the module's file; the folders that the user named; where systems keep
 * such files (/usr/lib/debug by build-id, .gnu_debuglink); and, only if the environment has
 * DEBUGINFOD_URLS, a debuginfod server.
 */
#ifndef NAMES_DEBUG_INFO_H
#define NAMES_DEBUG_INFO_H

#include "base/error.h"

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct debug_module {
    const char *path;
    const uint8_t *build_id;
    uint32_t build_id_size; /* 0: only its own file can be trusted to be of the same build */
};

struct debug_folders {
    const char *const *paths;
    size_t count;
};

/*
 * The file with the debug information or, if there is none, with a full symbol table. To be freed.
 * NULL in *path is no error: there is none. It is one if a folder that the user named has a file of
 * the module's name which is of another build.
 */
int debug_info_find(const struct debug_module *module, const struct debug_folders *folders,
                    char **path, struct ct_error *err);

/* An opened file. */
struct debug_info {
    int fd;
    Elf *elf;
    Dwarf *dwarf;  /* NULL before debug_info_dwarf */
    Dwarf *shared; /* what several files share, if it had to be looked for */
    int shared_fd;
};

int debug_info_open(const char *path, struct debug_info *out, struct ct_error *err);

/* Its debug information, decompressed where need be; NULL when it has symbols only. */
Dwarf *debug_info_dwarf(struct debug_info *info, const struct debug_folders *folders);

void debug_info_close(struct debug_info *info);

#endif
