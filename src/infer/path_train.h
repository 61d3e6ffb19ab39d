/*
 * Makes a path map from profiles whose contexts have stack heights (record --engine exact --height,
 * or
 * --engine infer, where all of a stack was seen), and from other maps. What is the same context in
 * several of them is one; a context with different heights varies.
 */
#ifndef INFER_PATH_TRAIN_H
#define INFER_PATH_TRAIN_H

#include "profile/profile.h"

struct path_trainer;

/* `weight`: the metric that says how likely a context is; NULL: that of a map, or calls, or the
 * first one. */
struct path_trainer *path_train_begin(const char *weight);

/* Adds a profile, or a map; all of it is checked. */
int path_train_add(struct path_trainer *trainer, const char *path, struct ct_error *err);

/* The same for one that is open and valid. */
int path_train_take(struct path_trainer *trainer, const struct profile *profile,
                    struct ct_error *err);

/* How many contexts there are. */
uint32_t path_train_count(const struct path_trainer *trainer);

int path_train_write(const struct path_trainer *trainer, const char *path, struct ct_error *err);
void path_train_free(struct path_trainer *trainer);

#endif
