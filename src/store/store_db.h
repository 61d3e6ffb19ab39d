/*
 * A connection to PostgreSQL, and the little of its binary formats that the store needs. Values go
 * to the server as parameters or as COPY, never as text of a statement: nothing of a name or a
 * label can become SQL.
 */
#ifndef STORE_STORE_DB_H
#define STORE_STORE_DB_H

#include "base/error.h"
#include "base/vec.h"
#include "store/libpq.h"

#include <stdbool.h>
#include <stdint.h>

/* 128 bits of a hash; a uuid in the database. */
struct store_hash {
    uint8_t bytes[16];
};

/* Bytes in network order, for parameters and COPY. */
struct wire {
    VEC(uint8_t) bytes;
};

void wire_bytes(struct wire *wire, const void *bytes, size_t size);
void wire_u16(struct wire *wire, uint16_t value);
void wire_u32(struct wire *wire, uint32_t value);
void wire_u64(struct wire *wire, uint64_t value);

/* Fields of a row: each has its size before it. */
void wire_field_bytes(struct wire *wire, const void *bytes, size_t size);
void wire_field_text(struct wire *wire, const char *text);
void wire_field_u32(struct wire *wire, uint32_t value);
void wire_field_u64(struct wire *wire, uint64_t value);
void wire_field_null(struct wire *wire);

/* Types of the server, by their numbers. */
enum { TYPE_BYTEA = 17, TYPE_INT8 = 20, TYPE_INT4 = 23, TYPE_TEXT = 25, TYPE_UUID = 2950 };

/* What an array begins with; its elements follow, as fields. */
void wire_array(struct wire *wire, uint32_t type, size_t count);

/* A point of time as the server has it: microseconds since 2000. */
uint64_t wire_time(uint64_t ns_since_1970);

/* ---- Statements ------------------------------------------------------------------------------ */

struct store {
    PGconn *connection;
    uint64_t day; /* days since 1970, plus one: it has a partition; 0: not asked yet */
};

/*
 * A URL or key=value words, as libpq has them. A password in it is refused: every user who can list
 * processes would see it.
 */
int db_check_url(const char *url, struct ct_error *err);
int db_connect(const char *url, struct store *out, struct ct_error *err);
void db_close(struct store *store);

/* A statement, or several, without values. */
int db_run(struct store *store, const char *sql, struct ct_error *err);

struct db_value {
    const void *bytes; /* NULL: null */
    size_t size;
    bool is_text; /* in the server's text format; then size is not looked at */
};

/* A statement with values $1, $2 and so on. The result, in binary, is the caller's to clear. */
int db_query(struct store *store, const char *sql, const struct db_value *values, int count,
             PGresult **out, struct ct_error *err);

/* Rows one after the other, for results that are large. `take` returns CT_OK to go on. */
typedef int db_row_fn(void *context, const PGresult *row, struct ct_error *err);
int db_each(struct store *store, const char *sql, const struct db_value *values, int count,
            db_row_fn *take, void *context, struct ct_error *err);

/* Binary COPY of rows: begin, rows with wire_u16(fields) and fields, then end. */
void db_copy_begin(struct wire *wire);
int db_copy(struct store *store, const char *sql, struct wire *wire, struct ct_error *err);

/* Fields of a result; of a null: 0, "". */
uint32_t db_u32(const PGresult *result, int row, int column);
uint64_t db_u64(const PGresult *result, int row, int column);
const char *db_bytes(const PGresult *result, int row, int column, size_t *size);

/* What the server said, as one line. */
int db_fail(const struct store *store, const char *what, struct ct_error *err);

#endif
