/*
 * The files of modules, as a process has them mapped. The process may have another root, or be
 * gone; the file may have been removed, or replaced. A file is taken only if it is the one that was
 * mapped, by its inode and that one's generation, and stays open until the end, so that no other
 * can get that number.
 */
#ifndef RECORD_OUTSIDE_FILES_H
#define RECORD_OUTSIDE_FILES_H

#include "base/file.h"
#include "base/vec.h"
#include "record/maps.h"
#include "record/outside/outside_records.h"

/* A part of the file that is loaded, by the addresses of its own headers. */
struct outside_segment {
    uint64_t address, bytes, file_offset;
    bool is_code;
};

struct outside_file {
    uint32_t major, minor; /* as the kernel calls it */
    uint64_t inode;
    dev_t device; /* as stat does */
    struct mapped_file file;
    const struct map *map; /* or NULL */
    VEC(struct outside_segment) segments;
};

struct outside_files {
    struct open_maps *maps;
    VEC(struct outside_file *) items;
};

void outside_files_end(struct outside_files *files);

/* The file of a mapping of a process, or NULL: it cannot be had any more. */
const struct outside_file *outside_file_of(struct outside_files *files, uint32_t pid,
                                           const struct outside_mapping *mapping);

/* What is added to the addresses of its headers where a part of it is mapped. False: it is not. */
bool outside_file_bias(const struct outside_file *file, const struct outside_mapping *mapping,
                       uint64_t *bias);

/* The bytes of the file around an address of its headers: sets the bounds of that part. */
const void *outside_file_code(const struct outside_file *file, uint64_t address, uint64_t *start,
                              uint64_t *end);

#endif
