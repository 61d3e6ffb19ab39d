/*
 * Libraries that are loaded when they are needed. Few commands need them, and with all that they
 * bring (TLS, Kerberos) loading them takes longer than a short recording.
 *
 * A header lists the functions of a library once, as LIST(X) with X(function) for each, declares
 * struct { LIST(LATE_MEMBER) }, and lets each function's name stand for the member.
 */
#ifndef BASE_LATE_H
#define BASE_LATE_H

#include "base/error.h"

#include <stddef.h>

#define LATE_MEMBER(name) __typeof__(name) *name;
#define LATE_NAME(name)   #name,

/* Fills a struct of function pointers by the names of its members, once. `package` is what has the
 * library, for the message. */
int late_load(const char *library, const char *package, const char *const *names, size_t count,
              void *functions, struct ct_error *err);

#endif
