#include "store/store_sum.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

void sum_init(struct sum *s)
{
    *s = (struct sum){0};
    struct id_set *sets[] = {&s->metrics,   &s->contexts, &s->frames, &s->origins,
                             &s->functions, &s->modules,  &s->strings};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        key_set_init(&sets[i]->keys, sizeof(uint32_t));
}

void sum_free(struct sum *s)
{
    struct id_set *sets[] = {&s->metrics,   &s->contexts, &s->frames, &s->origins,
                             &s->functions, &s->modules,  &s->strings};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        key_set_free(&sets[i]->keys);
    for (size_t i = 0; i < s->frame_rows.count; i++)
        vec_free(&s->frame_rows.items[i].lines);
    for (size_t i = 0; i < s->texts.count; i++)
        free(s->texts.items[i]);
    free(s->metric_names);
    vec_free(&s->costs);
    vec_free(&s->context_rows);
    vec_free(&s->frame_rows);
    vec_free(&s->origin_rows);
    vec_free(&s->function_rows);
    vec_free(&s->module_rows);
    vec_free(&s->texts);
}

static uint32_t number_of(struct id_set *set, uint32_t id)
{
    return key_set_add(&set->keys, &id);
}

/* The number of what a field refers to; null is none. */
static uint32_t reference(struct id_set *set, const PGresult *row, int column)
{
    return PQgetisnull(row, 0, column) ? CTP_NONE : number_of(set, db_u32(row, 0, column));
}

/* Room for the row of each id that is known now. Rows that the store does not have stay empty. */
#define ROOM_FOR(rows, set)                                                                        \
    do {                                                                                           \
        size_t more_ = (set).keys.count - (rows).count;                                            \
        vec_reserve(&(rows), (size_t)(set).keys.count + 1);                                        \
        memset((rows).items + (rows).count, 0, more_ * sizeof *(rows).items);                      \
        (rows).count = (set).keys.count;                                                           \
    } while (0)

/* Asks for the rows of all ids of a set. */
static int fetch(struct sum *s, struct store *store, const struct id_set *set, const char *sql,
                 db_row_fn *take, struct ct_error *err)
{
    struct wire ids = {0};
    wire_array(&ids, TYPE_INT4, set->keys.count);
    for (uint32_t i = 0; i < set->keys.count; i++)
        wire_field_u32(&ids, *(const uint32_t *)key_set_get(&set->keys, i));
    struct db_value value = {ids.bytes.items, ids.bytes.count, false};
    int status = db_each(store, sql, &value, 1, take, s, err);
    vec_free(&ids.bytes);
    return status;
}

/* Which of a set's rows this is. The server gives those only that were asked for. */
static uint32_t place_of(const struct id_set *set, const PGresult *row)
{
    uint32_t id = db_u32(row, 0, 0), number;
    return key_set_find(&set->keys, &id, &number) ? number : 0;
}

static int take_cost(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    char *end;
    errno = 0;
    uint64_t amount = strtoull(PQgetvalue(row, 0, 2), &end, 10);
    if (errno || *end)
        return ct_fail(err, "a sum does not fit in 64 bits any more");
    struct sum_cost cost = {number_of(&s->metrics, db_u32(row, 0, 0)),
                            number_of(&s->contexts, db_u32(row, 0, 1)), amount};
    vec_push(&s->costs, cost);
    return CT_OK;
}

static int take_context(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    (void)err;
    uint32_t number = number_of(&s->contexts, db_u32(row, 0, 0));
    struct sum_context c = {reference(&s->contexts, row, 1), reference(&s->frames, row, 2),
                            reference(&s->origins, row, 3)};
    ROOM_FOR(s->context_rows, s->contexts);
    s->context_rows.items[number] = c;
    s->contexts_seen++;
    return CT_OK;
}

static int take_origin(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    (void)err;
    s->origin_rows.items[place_of(&s->origins, row)] = (struct sum_origin){
        reference(&s->strings, row, 1), PQgetisnull(row, 0, 2) ? CTP_NONE : db_u32(row, 0, 2),
        reference(&s->strings, row, 3), reference(&s->strings, row, 4)};
    return CT_OK;
}

/* Lines are an array: five numbers, then fields of a size and a number. */
static void take_lines(struct sum *s, struct sum_frame *frame, const PGresult *row, int column)
{
    size_t size;
    const char *bytes = db_bytes(row, 0, column, &size);
    for (size_t at = 20; at + 32 <= size; at += 32) {
        uint32_t fields[8];
        memcpy(fields, bytes + at, sizeof fields);
        uint32_t function = be32toh(fields[1]);
        vec_push(&frame->lines,
                 (struct ctp_line){function ? number_of(&s->functions, function) : CTP_NONE,
                                   number_of(&s->strings, be32toh(fields[3])), be32toh(fields[5]),
                                   be32toh(fields[7])});
    }
}

static int take_frame(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    (void)err;
    struct sum_frame *frame = &s->frame_rows.items[place_of(&s->frames, row)];
    frame->record = (struct ctp_frame){.module = reference(&s->modules, row, 1),
                                       .function = reference(&s->functions, row, 2),
                                       .offset = db_u64(row, 0, 3),
                                       .flags = db_u32(row, 0, 4),
                                       .gap = db_u32(row, 0, 5)};
    take_lines(s, frame, row, 6);
    return CT_OK;
}

static int take_function(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    (void)err;
    s->function_rows.items[place_of(&s->functions, row)] =
        (struct ctp_function){.module = reference(&s->modules, row, 1),
                              .name = reference(&s->strings, row, 2),
                              .file = reference(&s->strings, row, 3),
                              .line = db_u32(row, 0, 4),
                              .offset = db_u64(row, 0, 5),
                              .size = db_u64(row, 0, 6)};
    return CT_OK;
}

static int take_module(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    size_t size;
    const char *build_id = db_bytes(row, 0, 5, &size);
    struct ctp_module *module = &s->module_rows.items[place_of(&s->modules, row)];
    if (size > sizeof module->build_id)
        return ct_fail(err, "the store is damaged: a build-id of %zu bytes", size);
    *module = (struct ctp_module){.path = reference(&s->strings, row, 1),
                                  .kind = db_u32(row, 0, 2),
                                  .base = db_u64(row, 0, 3),
                                  .size = db_u64(row, 0, 4),
                                  .build_id_size = (uint32_t)size};
    memcpy(module->build_id, build_id, size);
    return CT_OK;
}

static int take_string(void *context, const PGresult *row, struct ct_error *err)
{
    struct sum *s = context;
    (void)err;
    int column = PQgetisnull(row, 0, 2) ? 1 : 2;
    size_t size;
    const char *bytes = db_bytes(row, 0, column, &size);
    char **text = &s->texts.items[place_of(&s->strings, row)];
    free(*text);
    *text = strndup(bytes, size);
    return CT_OK;
}

/* The sums, and below them all contexts up to the roots. */
static int read_contexts(struct sum *s, struct store *store, const struct wire *profiles,
                         uint64_t first, uint64_t last, struct ct_error *err)
{
    struct wire times = {0};
    wire_u64(&times, first);
    wire_u64(&times, last);
    const struct db_value values[] = {{profiles->bytes.items, profiles->bytes.count, false},
                                      {times.bytes.items, 8, false},
                                      {times.bytes.items + 8, 8, false}};
    int status =
        db_each(store,
                "SELECT c.metric, u.context, sum(u.amount)::text FROM calltrail.cost c CROSS JOIN "
                "LATERAL unnest(c.contexts, c.amounts) u(context, amount) WHERE c.taken >= "
                "$2::timestamptz AND c.taken <= $3::timestamptz AND c.profile = ANY($1::int8[]) "
                "GROUP BY c.metric, u.context",
                values, 3, take_cost, s, err);
    vec_free(&times.bytes);
    if (status == CT_OK)
        status = fetch(s, store, &s->contexts,
                       "WITH RECURSIVE up AS (SELECT id, parent, frame, origin FROM "
                       "calltrail.context WHERE id = ANY($1::int4[]) UNION SELECT x.id, x.parent, "
                       "x.frame, x.origin FROM calltrail.context x JOIN up ON x.id = up.parent) "
                       "SELECT * FROM up",
                       take_context, err);
    if (status == CT_OK && s->contexts_seen != s->contexts.keys.count)
        status = ct_fail(err, "the store is damaged: it has costs of contexts that are missing");
    return status;
}

int sum_read(struct sum *s, struct store *store, const struct wire *profiles, uint64_t first,
             uint64_t last, struct ct_error *err)
{
    CT_TRY(read_contexts(s, store, profiles, first, last, err));
    ROOM_FOR(s->context_rows, s->contexts);
    ROOM_FOR(s->origin_rows, s->origins);
    CT_TRY(fetch(s, store, &s->origins,
                 "SELECT id, command, rank, thread, phase FROM calltrail.origin WHERE id = "
                 "ANY($1::int4[])",
                 take_origin, err));
    ROOM_FOR(s->frame_rows, s->frames);
    CT_TRY(fetch(s, store, &s->frames,
                 "SELECT id, module, function, place, flags, gap, lines FROM calltrail.frame WHERE "
                 "id = ANY($1::int4[])",
                 take_frame, err));
    ROOM_FOR(s->function_rows, s->functions);
    CT_TRY(
        fetch(s, store, &s->functions,
              "SELECT id, module, name, file, line, start, size FROM calltrail.function WHERE id "
              "= ANY($1::int4[])",
              take_function, err));
    ROOM_FOR(s->module_rows, s->modules);
    CT_TRY(fetch(s, store, &s->modules,
                 "SELECT id, path, kind, base, size, build_id FROM calltrail.module WHERE id = "
                 "ANY($1::int4[])",
                 take_module, err));
    s->metric_names = must_calloc((size_t)s->metrics.keys.count + 1, sizeof *s->metric_names);
    for (uint32_t i = 0; i < s->metrics.keys.count; i++)
        s->metric_names[i] =
            number_of(&s->strings, *(const uint32_t *)key_set_get(&s->metrics.keys, i));
    ROOM_FOR(s->texts, s->strings);
    return fetch(s, store, &s->strings,
                 "SELECT id, text, raw FROM calltrail.string WHERE id = ANY($1::int4[])",
                 take_string, err);
}
