/*
 * Sheets: rows of numbers and names, written as text for people, as JSON or as CSV. A view says
 * what its columns are and gives rows; how they look is decided here, once.
 */
#ifndef REPORT_SHEET_H
#define REPORT_SHEET_H

#include "base/json.h"
#include "query/amount.h"
#include "query/view.h"
#include "report/terminal.h"

enum sheet_format { SHEET_TEXT, SHEET_JSON, SHEET_CSV };

enum column_kind {
    COLUMN_SHARE, /* of a value in the view's total */
    COLUMN_VALUE, /* in the metric's unit */
    COLUMN_COUNT,
    COLUMN_ID, /* a number that names something */
    COLUMN_TEXT,
    COLUMN_LABEL,        /* "function [module]"; two columns for machines */
    COLUMN_PATH,         /* labels, outermost first; below the row for people */
    COLUMN_CODE,         /* text that is cut at the end, spaces and all */
    COLUMN_HIDDEN,       /* a number for machines only */
    COLUMN_MACHINE_TEXT, /* a text for machines only */
    COLUMN_PER_CALL,     /* as a value, in a scale of its own */
};

struct column {
    enum column_kind kind;
    const char *title; /* for people */
    const char *key;   /* for machines; for a label "" */
};

struct cell {
    uint64_t number; /* value, count, label or depth */
    const char *text;
    const char *prefix;     /* of a label in a tree: its branches, for people */
    const uint32_t *labels; /* of a path */
    uint32_t label_count;
    bool same;     /* as in the row above, or nothing: people need not read it; of a label, its
                    * module */
    bool is_bound; /* of a value per call: it may be less */
};

enum { SHEET_COLUMNS_MAX = 8 };

struct sheet {
    const struct view *view;
    enum sheet_format format;
    struct terminal *terminal;
    uint32_t path_frames_max; /* innermost frames of a path that are shown; 0: all */
    const char *unit;
    struct amount_scale scale;
    struct json json;
    struct column columns[SHEET_COLUMNS_MAX];
    size_t column_count;
    size_t widths[SHEET_COLUMNS_MAX];
    uint32_t rows;  /* of this table */
    uint32_t lines; /* of all, for people */
};

/* What the outermost braces are of JSON, and the first lines of text; then tables; then the end. */
struct sheet sheet_open(const struct view *view, enum sheet_format format,
                        struct terminal *terminal);
void sheet_close(struct sheet *sheet);

/* A table: its key for machines and its heading, or NULL, for people. */
void sheet_begin(struct sheet *sheet, const char *key, const char *heading,
                 const struct column *columns, size_t count);
void sheet_row(struct sheet *sheet, const struct cell *cells);

/* `left_out` rows are known to exist and were not shown. */
void sheet_end(struct sheet *sheet, uint64_t left_out);

/* Functions that call each other, outermost first, only the last `most` of them, behind `lead`, for
 * people; later lines are indented. */
void sheet_path(struct sheet *sheet, const uint32_t *labels, uint32_t count, uint32_t most,
                const char *lead, size_t indent);

/* A line of text for people; nothing otherwise. */
void sheet_note(struct sheet *sheet, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, of something that is wrong. */
void sheet_alert(struct sheet *sheet, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Lines that a note takes at this width. */
uint32_t sheet_note_lines(const struct sheet *sheet, const char *text);

/* "name [module]" in at most `columns`, unless full names are wanted; clean. The caller frees it.
 */
char *sheet_label(const struct sheet *sheet, uint32_t label, bool with_module, size_t columns);
char *sheet_name(const struct terminal *terminal, const char *name, const char *module,
                 size_t columns);

/* A text as one field of CSV. */
void sheet_csv_text(FILE *out, const char *text);

/* A row as CSV, and the first frame of a path that is shown: for the sheet's own parts. */
void sheet_csv_row(struct sheet *sheet, const struct cell *cells);
uint32_t sheet_first_frame(const struct sheet *sheet, const struct cell *cell);

/* A text in lines of so many columns, the later ones indented. Returns how many they are; without
 * OUT they are only counted. */
uint32_t print_wrapped(FILE *out, const char *text, size_t columns);

#endif
