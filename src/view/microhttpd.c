#include "view/microhttpd.h"

struct libmicrohttpd libmicrohttpd;

int libmicrohttpd_load(struct ct_error *err)
{
    static const char *const names[] = {LIBMICROHTTPD_FUNCTIONS(LATE_NAME)};
    return late_load("libmicrohttpd.so.12", "libmicrohttpd12", names, sizeof names / sizeof *names,
                     &libmicrohttpd, err);
}
