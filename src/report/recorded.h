/*
 * What `record` says at its end, on a terminal: where the profile is, what is in it, how the
 * program ended, and what to type next.
 */
#ifndef REPORT_RECORDED_H
#define REPORT_RECORDED_H

#include "base/error.h"

#include <stdio.h>

/* A profile that cannot be read is an error; the caller knows whether that matters. */
int report_recorded(const char *path, FILE *out, struct ct_error *err);

#endif
