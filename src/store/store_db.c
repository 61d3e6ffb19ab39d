#include "store/store_db.h"

#include <endian.h>
#include <string.h>

/* ---- Bytes ----------------------------------------------------------------------------------- */

void wire_bytes(struct wire *w, const void *bytes, size_t size)
{
    vec_reserve(&w->bytes, w->bytes.count + size);
    if (size)
        memcpy(w->bytes.items + w->bytes.count, bytes, size);
    w->bytes.count += size;
}

void wire_u16(struct wire *w, uint16_t value)
{
    value = htobe16(value);
    wire_bytes(w, &value, sizeof value);
}

void wire_u32(struct wire *w, uint32_t value)
{
    value = htobe32(value);
    wire_bytes(w, &value, sizeof value);
}

void wire_u64(struct wire *w, uint64_t value)
{
    value = htobe64(value);
    wire_bytes(w, &value, sizeof value);
}

void wire_field_bytes(struct wire *w, const void *bytes, size_t size)
{
    wire_u32(w, (uint32_t)size);
    wire_bytes(w, bytes, size);
}

void wire_field_text(struct wire *w, const char *text)
{
    wire_field_bytes(w, text, strlen(text));
}

void wire_field_u32(struct wire *w, uint32_t value)
{
    wire_u32(w, sizeof value);
    wire_u32(w, value);
}

void wire_field_u64(struct wire *w, uint64_t value)
{
    wire_u32(w, sizeof value);
    wire_u64(w, value);
}

void wire_field_null(struct wire *w)
{
    wire_u32(w, UINT32_MAX);
}

void wire_array(struct wire *w, uint32_t type, size_t count)
{
    wire_u32(w, count != 0); /* dimensions */
    wire_u32(w, 0);          /* no nulls */
    wire_u32(w, type);
    if (count) {
        wire_u32(w, (uint32_t)count);
        wire_u32(w, 1); /* the first index */
    }
}

uint64_t wire_time(uint64_t ns_since_1970)
{
    const int64_t us_to_2000 = INT64_C(946684800000000);
    return (uint64_t)((int64_t)(ns_since_1970 / 1000) - us_to_2000);
}

/* ---- The connection -------------------------------------------------------------------------- */

static void no_notice(void *context, const char *message)
{
    (void)context;
    (void)message;
}

int db_fail(const struct store *store, const char *what, struct ct_error *err)
{
    char *text = must_strdup(PQerrorMessage(store->connection));
    size_t length = strlen(text);
    while (length && text[length - 1] == '\n')
        text[--length] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    ct_fail(err, "%s: %s", what, length ? text : "no answer");
    free(text);
    return CT_ERROR;
}

/* A value in which a password stands where something else belongs: postgresql://USER:PASSWORD for a
 * host and a port, or an address in the place of a database. The server's messages would repeat it.
 */
static bool is_misplaced(const char *keyword, const char *value)
{
    if (strcmp(keyword, "port") == 0)
        return value[strspn(value, "0123456789,")] != '\0';
    if (strcmp(keyword, "dbname") == 0 || strcmp(keyword, "user") == 0)
        return strstr(value, "://") || strstr(value, "password");
    return false;
}

/* What libpq says of a URL that it cannot read may be a part of it: that is not repeated. */
int db_check_url(const char *url, struct ct_error *err)
{
    CT_TRY(libpq_load(err));
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    bool has_password = false, is_understood = options != NULL;
    for (PQconninfoOption *o = options; o && o->keyword; o++) {
        if (!o->val || !*o->val)
            continue;
        has_password |=
            strcmp(o->keyword, "password") == 0 || strcmp(o->keyword, "sslpassword") == 0;
        is_understood &= !is_misplaced(o->keyword, o->val);
    }
    PQconninfoFree(options);
    if (has_password)
        return ct_fail(err, "a password on the command line can be seen by all users of this "
                            "machine: put it in ~/.pgpass (mode 0600), or in PGPASSFILE's file");
    return is_understood ? CT_OK
                         : ct_fail(err, "the store's address is not understood: "
                                        "postgresql://USER@HOST/DATABASE, or words like host=HOST "
                                        "dbname=DATABASE");
}

int db_connect(const char *url, struct store *out, struct ct_error *err)
{
    CT_TRY(db_check_url(url, err));
    out->day = 0;
    /* Later ones count, so the address has the last word, but for the encoding. */
    static const char *const words[] = {"connect_timeout", "tcp_user_timeout", "application_name",
                                        "dbname",          "client_encoding",  NULL};
    const char *const values[] = {"10", "30000", "calltrail", url, "UTF8", NULL};
    out->connection = PQconnectdbParams(words, values, 1);
    int status = CT_OK;
    PQsetNoticeProcessor(out->connection, no_notice, NULL);
    if (PQstatus(out->connection) != CONNECTION_OK)
        status = db_fail(out, "the store cannot be reached", err);
    else /* functions and operators of others in this database are not ours */
        status = db_run(out, "SET search_path = pg_catalog, pg_temp", err);
    if (status != CT_OK)
        db_close(out);
    return status;
}

void db_close(struct store *store)
{
    PQfinish(store->connection);
    store->connection = NULL;
}

/* ---- Statements ------------------------------------------------------------------------------ */

static int check(struct store *store, PGresult *result, struct ct_error *err)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE ||
        status == PGRES_COPY_IN)
        return CT_OK;
    return db_fail(store, "the store", err);
}

int db_run(struct store *store, const char *sql, struct ct_error *err)
{
    PGresult *result = PQexec(store->connection, sql);
    int status = check(store, result, err);
    PQclear(result);
    return status;
}

enum { VALUES_MAX = 8 };

static int send(struct store *store, const char *sql, const struct db_value *values, int count,
                struct ct_error *err)
{
    const char *bytes[VALUES_MAX];
    int sizes[VALUES_MAX], binary[VALUES_MAX];
    for (int i = 0; i < count; i++) {
        bytes[i] = values[i].bytes;
        sizes[i] = (int)values[i].size;
        binary[i] = !values[i].is_text;
    }
    if (!PQsendQueryParams(store->connection, sql, count, NULL, bytes, sizes, binary, 1))
        return db_fail(store, "the store", err);
    return CT_OK;
}

int db_query(struct store *store, const char *sql, const struct db_value *values, int count,
             PGresult **out, struct ct_error *err)
{
    CT_TRY(send(store, sql, values, count, err));
    PGresult *result, *last = NULL;
    while ((result = PQgetResult(store->connection)) != NULL) {
        PQclear(last);
        last = result;
    }
    int status = last ? check(store, last, err) : db_fail(store, "the store", err);
    if (status == CT_OK)
        *out = last;
    else
        PQclear(last);
    return status;
}

int db_each(struct store *store, const char *sql, const struct db_value *values, int count,
            db_row_fn *take, void *context, struct ct_error *err)
{
    CT_TRY(send(store, sql, values, count, err));
    PQsetSingleRowMode(store->connection);
    int status = CT_OK;
    PGresult *result;
    while ((result = PQgetResult(store->connection)) != NULL) { /* to the end, whatever happens */
        if (status == CT_OK)
            status = check(store, result, err);
        if (status == CT_OK && PQresultStatus(result) == PGRES_SINGLE_TUPLE)
            status = take(context, result, err);
        PQclear(result);
    }
    return status;
}

void db_copy_begin(struct wire *w)
{
    w->bytes.count = 0;
    wire_bytes(w, "PGCOPY\n\377\r\n\0", 11);
    wire_u32(w, 0); /* flags */
    wire_u32(w, 0); /* extension */
}

int db_copy(struct store *store, const char *sql, struct wire *w, struct ct_error *err)
{
    const size_t piece = 1 << 20;
    PGconn *c = store->connection;
    CT_TRY(db_run(store, sql, err));
    wire_u16(w, UINT16_MAX); /* the end */
    bool sent = true;
    for (size_t at = 0; at < w->bytes.count && sent; at += piece) {
        size_t left = w->bytes.count - at;
        sent = PQputCopyData(c, (const char *)w->bytes.items + at,
                             (int)(left < piece ? left : piece)) == 1;
    }
    sent = PQputCopyEnd(c, sent ? NULL : "cut off") == 1 && sent;
    int status = sent ? CT_OK : db_fail(store, "the store", err);
    PGresult *result;
    while ((result = PQgetResult(c)) != NULL) {
        if (status == CT_OK)
            status = check(store, result, err);
        PQclear(result);
    }
    return status;
}

uint32_t db_u32(const PGresult *result, int row, int column)
{
    uint32_t value = 0;
    if (PQgetlength(result, row, column) == sizeof value)
        memcpy(&value, PQgetvalue(result, row, column), sizeof value);
    return be32toh(value);
}

uint64_t db_u64(const PGresult *result, int row, int column)
{
    uint64_t value = 0;
    if (PQgetlength(result, row, column) == sizeof value)
        memcpy(&value, PQgetvalue(result, row, column), sizeof value);
    return be64toh(value);
}

const char *db_bytes(const PGresult *result, int row, int column, size_t *size)
{
    *size = (size_t)PQgetlength(result, row, column);
    return PQgetvalue(result, row, column);
}
