/*
 * Makes a path map from profiles whose contexts have stack heights (record --engine exact --height,
 * or
 * --engine infer, where all of a stack was seen), and from other maps. What is the same context in
 * several of them is one; a context with different heights varies.
 */
#ifndef INFER_PATH_TRAIN_H
#define INFER_PATH_TRAIN_H

#include "edit/growth.h"
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

/* A place of a call, or a function alone; all of it the caller's. */
struct path_place {
    const struct ctp_module *module;
    const char *module_path, *name; /* the last: of the function */
    uint64_t function, function_size;
    uint64_t offset; /* the return address */
};

/* Adds a path that was searched (path_search.h), its places outermost first. `is_whole`: with the
 * others that are added, these are all. */
void path_train_found(struct path_trainer *trainer, const struct path_place *places, uint32_t count,
                      const struct path_place *leaf, uint64_t height_bytes, bool is_whole);

/* How many contexts there are. */
uint32_t path_train_count(const struct path_trainer *trainer);

int path_train_write(const struct path_trainer *trainer, const char *path, struct ct_error *err);

/* The same, with heights as they are when the stack grows at these places. */
int path_train_write_grown(const struct path_trainer *trainer, const struct growth *growth,
                           const char *path, struct ct_error *err);
void path_train_free(struct path_trainer *trainer);

#endif
