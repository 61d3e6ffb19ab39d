/*
 * Reports: one way each of looking at a view. `calltrail report` prints them.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "query/outline.h"
#include "query/source_text.h"
#include "report/sheet.h"

enum report_kind {
    REPORT_SUMMARY,
    REPORT_CONTEXTS,
    REPORT_TOPDOWN,
    REPORT_BOTTOMUP,
    REPORT_FLAT,
    REPORT_CALLERS,
    REPORT_CALLEES,
    REPORT_LINES,
    REPORT_THREADS,
    REPORT_PROCESSES,
    REPORT_PHASES,
    REPORT_KCTX,
    REPORT_RANKS,
    REPORT_FLAME,
    REPORT_STRUCTURE,
    REPORT_PATHS,
    REPORT_KINDS
};

enum report_sort { SORT_DEFAULT, SORT_SELF, SORT_TOTAL, SORT_NAME };

struct report_options {
    enum report_kind kind;
    const char *function; /* of callers, callees and lines; of kctx, or NULL for all */
    bool full_names;      /* for people, too, however long they are */
    bool assembly;        /* instructions instead of lines */
    struct source_folders sources;
    enum sheet_format format;
    enum report_sort sort;
    double min_share;   /* in %; rows with less are left out */
    uint32_t limit;     /* rows; 0: all */
    uint32_t depth_max; /* levels of a tree, innermost frames of a path; 0: all */
    bool hot_path;
    const bool *wraps; /* flat: by label, whose own cost is that of who called them; or NULL */
    bool with_idle;    /* threads that only waited, and those that wait for work, as they are */
    bool with_bounds;  /* counts of returns, for people */
    double explain_percent; /* kctx: of a function's cost */
    uint32_t k;             /* kctx: callers of a chain at most */
    bool keep_recursion;    /* kctx: a function that calls itself is its own caller */
};

/* What kctx does when it is not told. */
enum { REPORT_EXPLAIN_PERCENT = 80, REPORT_K = 10 };

/* "contexts" and so on. */
const char *report_name(enum report_kind kind);

/* Settles what the view must have: its grouping, and labels that tell lines or instructions apart.
 */
void report_prepare(const struct report_options *options, struct view_options *view);
/* Prints it, to the terminal's stream. Only a function that is not there is an error, or one whose
 * instructions are not. */
int report_print(const struct view *view, const struct report_options *options,
                 struct terminal *terminal, struct ct_error *err);

/* The parts, one file each. */
void report_summary(struct sheet *sheet, const struct report_options *options);
void report_contexts(struct sheet *sheet, const struct report_options *options, const char *key,
                     const char *heading);
void report_flat(struct sheet *sheet, const struct report_options *options, const char *key,
                 const char *heading);
void report_groups(struct sheet *sheet, const struct report_options *options);
void report_ranks(struct sheet *sheet, const struct report_options *options);

/* Does any process have a rank? */
bool report_has_ranks(const struct profile *profile);
void report_structure(struct sheet *sheet, const struct report_options *options);
void report_paths(struct sheet *sheet, const struct report_options *options);

/* Not a sheet, but a picture: SVG. */
void report_flame(const struct view *view, const struct report_options *options, FILE *out);

/* Topdown, bottomup, callers and callees; `wanted` are the labels of the function of the latter. */
void report_tree(struct sheet *sheet, const struct report_options *options, const bool *wanted,
                 const char *key, const char *heading);

/* `wanted` are the labels of the functions to explain; NULL: the hottest. */
void report_kctx(struct sheet *sheet, const struct report_options *options, const bool *wanted);
/* The lines of a function; `wanted` are its labels. */
void report_lines(struct sheet *sheet, const struct report_options *options, const bool *wanted);

/* Its instructions: opened before anything is printed, since they may not be there. Printing frees
 * them. */
struct asm_listing {
    struct instructions *code;
    uint64_t offset, size;
    uint32_t module;
};
int report_asm_open(const struct view *view, const struct report_options *options,
                    const bool *wanted, struct asm_listing *out, struct ct_error *err);
void report_asm(struct sheet *sheet, const struct report_options *options, const bool *wanted,
                struct asm_listing *listing);

/* One line about a function as a whole. */
void report_note_function(struct sheet *sheet, const char *name, uint64_t self, uint64_t total);

/* The least value that is shown, by the least share. */
uint64_t report_min_total(const struct view *view, const struct report_options *options);

#endif
