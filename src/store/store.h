/*
 * A store of profiles in a PostgreSQL database: contexts once for all, costs by profile.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { STORE_VERSION = 1 };

struct store; /* store_db.h */

/* Labels of a profile, or those that are asked for. Texts are the caller's. */
struct store_label {
    const char *key, *value;
};

struct store_labels {
    VEC(struct store_label) items;
};

/* Takes key=value apart; `text` is changed, and must stay. */
int store_label_parse(struct store_labels *labels, char *text, struct ct_error *err);

/* Makes the tables; those that are there stay as they are. */
int store_init(struct store *store, struct ct_error *err);

/* Connects to a database that has a store. */
int store_open(const char *url, struct store *store, struct ct_error *err);

/*
 * Adds the profile in a file, in one transaction. A file with the same bytes is in the store once,
 * by whichever client and however often it is added: `is_new` says whether it was this time. It
 * gets the labels host and program from the profile, unless they are given.
 */
int store_add(struct store *store, const char *path, const struct store_labels *labels,
              bool *is_new, struct ct_error *err);

/* Which profiles: those that have all the labels, and were taken in the time. */
struct store_selection {
    struct store_labels labels;
    const char *since, *until; /* as the server reads times, or an interval and "ago"; NULL: all */
};

/* Writes the sum of the profiles: the one that calltrail merge makes of their files. */
int store_query(struct store *store, const struct store_selection *selection, const char *output,
                uint32_t *profiles, struct ct_error *err);

/* Prints a line for each, or JSON. */
int store_list(struct store *store, const struct store_selection *selection, bool json, FILE *out,
               struct ct_error *err);

/* Removes the profiles that were taken before. Contexts stay: others may have them. */
int store_drop(struct store *store, const char *before, uint64_t *profiles, struct ct_error *err);

#endif
