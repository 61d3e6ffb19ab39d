/*
 * Which files are merged, and adding one of them: what the commands that merge have in common.
 */
#ifndef PROFILE_MERGE_FILES_H
#define PROFILE_MERGE_FILES_H

#include "base/vec.h"
#include "profile/merge.h"

/* Paths, owned. */
struct file_list {
    VEC(char *) paths;
};

/* Adds what an argument names: a file, or with @LIST those in the lines of LIST, @- being standard
 * input. */
int file_list_add(struct file_list *list, const char *argument, struct ct_error *err);
void file_list_free(struct file_list *list);

/* Opens a profile, checks all of it, and adds it. */
int merge_file(struct merge *merge, const char *path, struct ct_error *err);

#endif
