/*
 * What processes that have ended measured, when there were too many to keep each arena: one profile
 * in the recording's folder, in which the processes of a program are one. Facts of it are what the
 * totals of a recording need.
 */
#ifndef RECORD_KEPT_H
#define RECORD_KEPT_H

#include "record/server.h"
#include "record/totals.h"

/* The path of a file of the folder that is for this; to be freed. */
char *kept_path(const struct server *server, const char *name);

struct kept {
    struct totals totals;
    bool is_there;
    bool has_unknown_time; /* some process ended without a word of its CPU time */
};

/* Nothing is kept: all of it is 0. */
int kept_read(const struct server *server, struct kept *out, struct ct_error *err);

/* The facts that `kept_read` reads, into a part: a profile of some processes that have ended. */
void kept_write_facts(const struct kept *kept, struct profile_writer *writer);

/*
 * Adds a part to what is kept, in a new file, since others read the old one until kept_put. It says
 * of which arenas it has all: those that are folding.
 */
int kept_add(const struct server *server, const char *part, struct ct_error *err);

/* The new file takes the place of the old one. */
int kept_put(const struct server *server, struct ct_error *err);

/* Adds what is kept to a profile of the other processes, which says all of the recording. */
int kept_join(const struct server *server, const char *rest, struct profile_writer *writer,
              struct ct_error *err);

/* In a folder that was left behind: lets go of the arenas that are in what is kept. */
int kept_settle(struct server *server, struct ct_error *err);

/* Copies what is kept to another folder. */
bool kept_copy(const struct server *server, const char *folder);

#endif
