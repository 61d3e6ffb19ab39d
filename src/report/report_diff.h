/*
 * A comparison of two profiles, as text, JSON or CSV.
 */
#ifndef REPORT_REPORT_DIFF_H
#define REPORT_REPORT_DIFF_H

#include "query/diff.h"
#include "report/sheet.h"

/* Prints it, to the terminal's stream. */
void report_diff(const struct diff *diff, const struct diff_options *options,
                 enum sheet_format format, struct terminal *terminal);

#endif
