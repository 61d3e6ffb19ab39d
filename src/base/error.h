/*
 * Errors for people: what happened, to what, and what to do, in one line.
 *
 * A function that can fail returns CT_OK (0) or CT_ERROR and, on failure, has filled the caller's
 * struct ct_error. No code below the command line prints or aborts.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdarg.h>

enum { CT_OK = 0, CT_ERROR = 1 };

struct ct_error {
    char text[512];
};

/* Fills err (which may be NULL) and returns CT_ERROR, so that callers can `return ct_fail(...)`. */
int ct_fail(struct ct_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As ct_fail, with ": " and the text of the given errno value behind it. */
int ct_fail_errno(struct ct_error *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CT_TRY(expr)                                                                               \
    do {                                                                                           \
        int ct_try_status_ = (expr);                                                               \
        if (ct_try_status_ != CT_OK)                                                               \
            return ct_try_status_;                                                                 \
    } while (0)

#endif
