/* What the questions to a store have in common: which profiles are meant. */
#ifndef STORE_STORE_QUERY_H
#define STORE_STORE_QUERY_H

#include "store/store.h"
#include "store/store_db.h"

/*
 * Conditions on calltrail.profile, as p, with the values $1 to $4 of selection_values. A time that
 * ends in "ago" is an interval before now.
 */
#define SELECTION_VALUES 4
#define TIME_OF(n)                                                                                 \
    "(CASE WHEN " n "::text ~ 'ago\\s*$' THEN now() + " n "::text::interval ELSE " n               \
    "::text::timestamptz END)"
#define SELECTED                                                                                   \
    "p.labels @> jsonb_object($1::text[], $2::text[])"                                             \
    " AND ($3::text IS NULL OR p.taken >= " TIME_OF(                                               \
        "$3") ")"                                                                                  \
              " AND ($4::text IS NULL OR p.taken < " TIME_OF("$4") ")"

struct selection_values {
    struct wire keys, values;
    struct db_value items[SELECTION_VALUES];
};

void selection_values(const struct store_selection *selection, struct selection_values *out);
void selection_values_free(struct selection_values *values);

#endif
