#include "export/libsqlite.h"

struct libsqlite libsqlite;

int libsqlite_load(struct ct_error *err)
{
    static const char *const names[] = {LIBSQLITE_FUNCTIONS(LATE_NAME)};
    return late_load("libsqlite3.so.0", "libsqlite3-0", names, sizeof names / sizeof *names,
                     &libsqlite, err);
}
