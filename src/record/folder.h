/*
 * The folder of one recording: it holds the arenas, and a file that names the supervisor. The
 * supervisor holds a lock on that file for as long as it lives, whatever it dies of; so a process
 * that finds the folder can tell whether it was left behind.
 */
#ifndef RECORD_FOLDER_H
#define RECORD_FOLDER_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>

struct folder {
    char *path; /* NULL: none */
    int lock;   /* descriptor of the locked file */
};

/* Makes a private folder in shared memory, or where temporary files are. */
int folder_make(struct folder *folder, struct ct_error *err);

/* The same on a disk; an error where all places for temporary files are in memory, too. */
int folder_make_on_disk(struct folder *folder, struct ct_error *err);

/* Is that folder in memory? And how long is it since a supervisor began to work there? */
bool folder_is_in_memory(const char *path);
double folder_age_s(const char *path);

/* Takes over a folder that was left behind; fails when its supervisor is alive. */
int folder_take(struct folder *folder, const char *path, struct ct_error *err);

/* Files of such a name have what processes that have ended measured (record/kept.h). */
#define KEPT_PREFIX "ended."

/* Removes the files of a folder whose names begin so. */
void folder_remove_files(const char *path, const char *prefix);

/* Removes the folder, which must be empty otherwise, and forgets it. */
void folder_remove(struct folder *folder);

/* Forgets the folder and leaves it where it is, for `calltrail recover`. */
void folder_leave(struct folder *folder);

/* The folders of this user's recordings whose supervisors are gone; to be freed one by one. */
struct folder_list {
    VEC(char *) paths;
};

void folder_list_left(struct folder_list *out);

#endif
