#include "base/error.h"

#include <stdio.h>
#include <string.h>

int ct_fail(struct ct_error *err, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return CT_ERROR;
}

int ct_fail_errno(struct ct_error *err, int errnum, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        int n = vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < sizeof err->text) {
            char reason[128];
            snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s",
                     strerror_r(errnum, reason, sizeof reason));
        }
    }
    return CT_ERROR;
}
