#include "store/libpq.h"

struct libpq libpq;

int libpq_load(struct ct_error *err)
{
    static const char *const names[] = {LIBPQ_FUNCTIONS(LATE_NAME)};
    return late_load("libpq.so.5", "libpq5", names, sizeof names / sizeof *names, &libpq, err);
}
