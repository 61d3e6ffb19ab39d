/*
 * Reports: one way each of looking at a view. `calltrail report` prints them.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "report/outline.h"
#include "report/sheet.h"

enum report_kind {
    REPORT_SUMMARY,
    REPORT_CONTEXTS,
    REPORT_TOPDOWN,
    REPORT_BOTTOMUP,
    REPORT_FLAT,
    REPORT_CALLERS,
    REPORT_CALLEES,
    REPORT_THREADS,
    REPORT_PROCESSES,
    REPORT_PHASES,
    REPORT_KCTX,
    REPORT_KINDS
};

enum report_sort { SORT_DEFAULT, SORT_SELF, SORT_TOTAL, SORT_NAME };

struct report_options {
    enum report_kind kind;
    const char *function; /* of callers and callees; of kctx, or NULL for all */
    enum sheet_format format;
    enum report_sort sort;
    double min_share;   /* in %; rows with less are left out */
    uint32_t limit;     /* rows; 0: all */
    uint32_t depth_max; /* levels of a tree, innermost frames of a path; 0: all */
    bool hot_path;
    double explain_percent; /* kctx: of a function's cost */
    uint32_t k;             /* kctx: callers of a chain at most */
    bool keep_recursion;    /* kctx: a function that calls itself is its own caller */
};

/* What kctx does when it is not told. */
enum { REPORT_EXPLAIN_PERCENT = 80, REPORT_K = 10 };

/* "contexts" and so on. */
const char *report_name(enum report_kind kind);

/* What the view must be grouped by. */
enum view_grouping report_grouping(enum report_kind kind);

/* Prints it, to the terminal's stream. Only a function that is not there is an error. */
int report_print(const struct view *view, const struct report_options *options,
                 struct terminal *terminal, struct ct_error *err);

/* The parts, one file each. */
void report_summary(struct sheet *sheet, const struct report_options *options);
void report_contexts(struct sheet *sheet, const struct report_options *options, const char *key,
                     const char *heading);
void report_flat(struct sheet *sheet, const struct report_options *options, const char *key,
                 const char *heading);
void report_groups(struct sheet *sheet, const struct report_options *options);

/* Topdown, bottomup, callers and callees; `wanted` are the labels of the function of the latter. */
void report_tree(struct sheet *sheet, const struct report_options *options, const bool *wanted,
                 const char *key, const char *heading);

/* `wanted` are the labels of the functions to explain; NULL: the hottest. */
void report_kctx(struct sheet *sheet, const struct report_options *options, const bool *wanted);

/* The least value that is shown, by the least share. */
uint64_t report_min_total(const struct view *view, const struct report_options *options);

#endif
