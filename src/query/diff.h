/*
 * Differences: what changed from one profile to another.
 *
 * Functions are the same if their names and the file names of their modules are, so that binaries
 * may be rebuilt, moved, and loaded elsewhere. The program itself may even be called otherwise.
 * Code without a name is told apart by its offset where both profiles have the same build; where
 * they do not, all such code of a module is one.
 */
#ifndef QUERY_DIFF_H
#define QUERY_DIFF_H

#include "base/vec.h"
#include "query/view.h"

enum diff_by { DIFF_FUNCTIONS, DIFF_CONTEXTS };
enum diff_measure { DIFF_SELF, DIFF_TOTAL };

struct diff_options {
    const char *metric; /* NULL: the first of the older profile */
    enum diff_by by;
    bool normalize;   /* parts of the whole are compared, not amounts */
    bool all;         /* rows that did not change as well */
    double min_share; /* in %; rows with less in both are left out */
    uint32_t limit;   /* rows; 0: all */
};

/* A function, or a context, of which at least one side has something. */
struct diff_row {
    uint32_t place; /* key of a function, node of a context */
    enum diff_measure measure;
    bool changed;      /* by more than noise explains */
    uint64_t value[2]; /* older, newer */
    double change;     /* newer - older; of the shares, in %, if they are compared */
    double error;      /* standard error of the change */
    double score;      /* change in standard errors, of amount or share: the lesser */
};

/* The name of what is compared, the same in both profiles. */
struct diff_key {
    uint32_t name, module; /* in the texts */
};

struct diff {
    struct view views[2]; /* older, newer; the labels of the trees are keys */
    struct string_pool texts;
    VEC(struct diff_key) keys;
    struct tree contexts;      /* of both; not in preorder, no totals */
    uint64_t *context_self[2]; /* by node of the contexts */
    VEC(struct diff_row) rows; /* greatest change first */
    uint32_t compared;         /* rows before those that are not shown were left out */
    double total_error;        /* of the total's change, by sampling */
    double late[2];            /* what came late, and may have been charged to the wrong place */
    const char *renamed[2];    /* file of the program in each; NULL: it is the same */
};

/* Profiles that cannot be compared are an error. */
int diff_open(const struct profile *older, const struct profile *newer,
              const struct diff_options *options, struct diff *out, struct ct_error *err);
void diff_close(struct diff *diff);

/* Whether the total or a row that changed grew by more than `percent`. */
bool diff_grew_over(const struct diff *diff, const struct diff_options *options, double percent);

#endif
