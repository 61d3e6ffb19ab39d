/*
 * Costs that the server has summed up, and the contexts, code and names that they are of, read from
 * the store and made a profile.
 */
#ifndef STORE_STORE_SUM_H
#define STORE_STORE_SUM_H

#include "base/key_set.h"
#include "profile/profile.h"
#include "store/store_db.h"

/* Ids of one table, numbered as they come. */
struct id_set {
    struct key_set keys;
};

struct sum_cost {
    uint32_t metric, context; /* numbers */
    uint64_t amount;
};

struct sum_context {
    uint32_t parent, frame, origin; /* numbers, or CTP_NONE */
};

struct sum_frame {
    struct ctp_frame record; /* references are numbers */
    VEC(struct ctp_line) lines;
};

struct sum_origin {
    uint32_t command, rank, thread, phase; /* strings and a rank, or CTP_NONE */
};

struct sum {
    struct id_set metrics, contexts, frames, origins, functions, modules, strings;
    uint32_t *metric_names; /* strings, by metric */
    VEC(struct sum_cost) costs;
    VEC(struct sum_context) context_rows;
    uint32_t contexts_seen; /* that the store has */
    VEC(struct sum_frame) frame_rows;
    VEC(struct sum_origin) origin_rows;
    VEC(struct ctp_function) function_rows;
    VEC(struct ctp_module) module_rows;
    VEC(char *) texts; /* by string */
};

void sum_init(struct sum *sum);
void sum_free(struct sum *sum);

/* Reads the costs of these profiles, taken from one moment to another (the server's times), and all
 * that they refer to. */
int sum_read(struct sum *sum, struct store *store, const struct wire *profiles, uint64_t first,
             uint64_t last, struct ct_error *err);

/* Writes what was read as a profile that merge_add_costs can add. */
void sum_write(const struct sum *sum, struct profile_writer *writer);

#endif
