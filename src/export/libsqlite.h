/* SQLite, loaded when a database is written. */
#ifndef EXPORT_LIBSQLITE_H
#define EXPORT_LIBSQLITE_H

#include "base/late.h"

#include <sqlite3.h>

#define LIBSQLITE_FUNCTIONS(X)                                                                     \
    X(sqlite3_bind_int64)                                                                          \
    X(sqlite3_bind_null)                                                                           \
    X(sqlite3_bind_text)                                                                           \
    X(sqlite3_close)                                                                               \
    X(sqlite3_errmsg)                                                                              \
    X(sqlite3_exec)                                                                                \
    X(sqlite3_finalize)                                                                            \
    X(sqlite3_open)                                                                                \
    X(sqlite3_prepare_v2)                                                                          \
    X(sqlite3_reset)                                                                               \
    X(sqlite3_step)

struct libsqlite {
    LIBSQLITE_FUNCTIONS(LATE_MEMBER)
};
extern struct libsqlite libsqlite;

/* Before any of the functions. */
int libsqlite_load(struct ct_error *err);

#define sqlite3_bind_int64 libsqlite.sqlite3_bind_int64
#define sqlite3_bind_null  libsqlite.sqlite3_bind_null
#define sqlite3_bind_text  libsqlite.sqlite3_bind_text
#define sqlite3_close      libsqlite.sqlite3_close
#define sqlite3_errmsg     libsqlite.sqlite3_errmsg
#define sqlite3_exec       libsqlite.sqlite3_exec
#define sqlite3_finalize   libsqlite.sqlite3_finalize
#define sqlite3_open       libsqlite.sqlite3_open
#define sqlite3_prepare_v2 libsqlite.sqlite3_prepare_v2
#define sqlite3_reset      libsqlite.sqlite3_reset
#define sqlite3_step       libsqlite.sqlite3_step

#endif
