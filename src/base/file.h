/*
 * Whole files: mapped for reading, and written so that a reader sees all of it or none.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

struct mapped_file {
    const uint8_t *bytes; /* NULL when the file is empty */
    size_t size;
    struct stat status; /* as it was when the file was mapped */
};

/* Maps a regular file read-only; anything else is an error that names the path. */
int file_map(const char *path, struct mapped_file *out, struct ct_error *err);
void file_unmap(struct mapped_file *file);

/*
 * A file under construction. It is written under a temporary name in the folder of `path` (0600)
 * and takes its place when it is complete, so two writers never mix and a crash leaves the old one.
 */
struct new_file {
    FILE *stream;
    char *path;
    char *temporary;
};

int file_begin(const char *path, struct new_file *out, struct ct_error *err);
int file_commit(struct new_file *file, struct ct_error *err); /* frees it, whatever happens */
void file_abandon(struct new_file *file);

/* Makes the folder and those above it, private to the user (0700). */
int make_folders(const char *path, struct ct_error *err);

#endif
