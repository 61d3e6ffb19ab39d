/*
 * Whole files: mapped for reading, and written so that a reader sees all of it or none.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/error.h"

#include <stdbool.h>
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
 * A file under construction. It is written without a name, or under a temporary one where the file
 * system cannot do that, in the folder of `path` (0600), and takes its place when it is complete,
 * so two writers never mix and a crash leaves the old one. A symbolic link stays: what it leads to
 * is replaced. A fifo, a device or an open descriptor of /proc cannot be replaced: it gets a copy
 * of the complete file. The stream can be read and seeked.
 */
struct new_file {
    FILE *stream;
    char *path;       /* as it was given */
    char *target;     /* where the links of the path lead to */
    char *temporary;  /* NULL: to be copied into the target */
    bool is_nameless; /* `temporary` is the name that it gets for a moment when it is complete */
    bool keeps_old;
};

int file_begin(const char *path, struct new_file *out, struct ct_error *err);
int file_commit(struct new_file *file, struct ct_error *err); /* frees it, whatever happens */
void file_abandon(struct new_file *file);

/* Others may read it as the umask permits; where a file is replaced, as that one permitted. */
void file_share(struct new_file *file);

/* The commit leaves what it replaces as `target`.old. Fails where that is something else. */
int file_keep_old(struct new_file *file, struct ct_error *err);

/* Is there something under this path that cannot be read back, like a fifo or a device? */
bool file_is_stream(const char *path);

/* Makes the folder and those above it, private to the user (0700). */
int make_folders(const char *path, struct ct_error *err);

#endif
