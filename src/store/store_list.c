/*
 * Which profiles a store has; and removing old ones.
 */
#include "store/store_query.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>

int store_label_parse(struct store_labels *labels, char *text, struct ct_error *err)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return ct_fail(err, "'%s' is not a label: key=value", text);
    *equals = '\0';
    for (size_t i = 0; i < labels->items.count; i++)
        if (strcmp(labels->items.items[i].key, text) == 0)
            return ct_fail(err, "the label %s is given twice", text);
    vec_push(&labels->items, (struct store_label){text, equals + 1});
    return CT_OK;
}

void selection_values(const struct store_selection *s, struct selection_values *out)
{
    *out = (struct selection_values){0};
    wire_array(&out->keys, TYPE_TEXT, s->labels.items.count);
    wire_array(&out->values, TYPE_TEXT, s->labels.items.count);
    for (size_t i = 0; i < s->labels.items.count; i++) {
        char *key = utf8_copy(s->labels.items.items[i].key),
             *value = utf8_copy(s->labels.items.items[i].value);
        wire_field_text(&out->keys, key);
        wire_field_text(&out->values, value);
        free(key);
        free(value);
    }
    const struct db_value items[SELECTION_VALUES] = {
        {out->keys.bytes.items, out->keys.bytes.count, false},
        {out->values.bytes.items, out->values.bytes.count, false},
        {s->since, 0, true},
        {s->until, 0, true}};
    memcpy(out->items, items, sizeof items);
}

void selection_values_free(struct selection_values *values)
{
    vec_free(&values->keys.bytes);
    vec_free(&values->values.bytes);
}

/* The first line comes with the first profile, or when it is known that there is none. */
struct listing {
    FILE *out;
    bool has_head;
};

static void print_head(struct listing *l)
{
    if (!l->has_head)
        fputs("id\ttaken\tseconds\tbytes\tlabels\n", l->out);
    l->has_head = true;
}

static int print_profile(void *context, const PGresult *row, struct ct_error *err)
{
    struct listing *l = context;
    (void)err;
    print_head(l);
    fprintf(l->out, "%s\t%s\t%s\t%s\t%s\n", PQgetvalue(row, 0, 0), PQgetvalue(row, 0, 1),
            PQgetvalue(row, 0, 2), PQgetvalue(row, 0, 3), PQgetvalue(row, 0, 4));
    return CT_OK;
}

static int print_json(void *context, const PGresult *row, struct ct_error *err)
{
    struct listing *l = context;
    (void)err;
    fprintf(l->out, "%s\n", PQgetvalue(row, 0, 0));
    return CT_OK;
}

int store_list(struct store *store, const struct store_selection *selection, bool json, FILE *out,
               struct ct_error *err)
{
    struct selection_values values;
    struct listing listing = {out, false};
    selection_values(selection, &values);
    /* Labels as JSON, where control characters are escaped; those above 0x7f are left out. */
    int status = db_each(
        store,
        json ? "SELECT json_build_object('id', p.id, 'taken', p.taken, 'seconds', "
               "extract(epoch FROM p.ended - p.taken), 'file_bytes', p.file_bytes, 'labels', "
               "p.labels)::text FROM calltrail.profile p WHERE " SELECTED " ORDER BY p.taken, p.id"
             : "SELECT p.id::text, to_char(p.taken AT TIME ZONE 'UTC', "
               "'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'), round(extract(epoch FROM p.ended - p.taken), "
               "3)::text, p.file_bytes::text, regexp_replace(p.labels::text, "
               "'[\\x7f-\\x9f]', '?', 'g') FROM calltrail.profile p WHERE " SELECTED
               " ORDER BY p.taken, p.id",
        values.items, SELECTION_VALUES, json ? print_json : print_profile, &listing, err);
    selection_values_free(&values);
    if (status == CT_OK && !json)
        print_head(&listing);
    return status;
}

/* Days that are over by then go as a whole. */
static const char drop_days[] =
    "SELECT c.oid::regclass::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE "
    "i.inhparent = 'calltrail.cost'::regclass AND to_date(substr(c.relname, 6), 'YYYYMMDD')"
    "::timestamp AT TIME ZONE 'UTC' + interval '1 day' <= " TIME_OF("$1");

static int drop_old_days(struct store *store, const struct db_value *before, struct ct_error *err)
{
    PGresult *result;
    int status = CT_OK;
    CT_TRY(db_query(store, drop_days, before, 1, &result, err));
    for (int i = 0; i < PQntuples(result) && status == CT_OK; i++) {
        /* The server has quoted the name. */
        char *sql = must_format("DROP TABLE %s", PQgetvalue(result, i, 0));
        status = db_run(store, sql, err);
        free(sql);
    }
    PQclear(result);
    return status;
}

static int drop(struct store *store, const char *before, uint64_t *profiles, struct ct_error *err)
{
    struct db_value value = {before, 0, true};
    PGresult *result;
    CT_TRY(drop_old_days(store, &value, err));
    CT_TRY(db_query(store, "DELETE FROM calltrail.cost WHERE taken < " TIME_OF("$1"), &value, 1,
                    &result, err));
    PQclear(result);
    CT_TRY(db_query(store, "DELETE FROM calltrail.profile WHERE taken < " TIME_OF("$1"), &value, 1,
                    &result, err));
    *profiles = strtoull(PQcmdTuples(result), NULL, 10);
    PQclear(result);
    return CT_OK;
}

int store_drop(struct store *store, const char *before, uint64_t *profiles, struct ct_error *err)
{
    /* No client adds meanwhile: a profile has its costs, or is not there. */
    CT_TRY(db_run(store, "BEGIN; LOCK TABLE calltrail.profile IN SHARE ROW EXCLUSIVE MODE", err));
    int status = drop(store, before, profiles, err);
    if (status == CT_OK)
        return db_run(store, "COMMIT", err);
    db_run(store, "ROLLBACK", NULL);
    return status;
}
