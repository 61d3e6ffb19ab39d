/*
 * Imports: profiles that other tools made, as .ctp files. Their bytes are not trusted.
 */
#ifndef IMPORT_IMPORT_H
#define IMPORT_IMPORT_H

#include "import/gather.h"

enum import_format { IMPORT_AUTO, IMPORT_FOLDED, IMPORT_PERF, IMPORT_PPROF };

struct import_options {
    enum import_format format;
    const char *metric; /* that comes first; folded stacks do not say what they count: its name */
    const char *unit;   /* of that; folded stacks only */
};

/* By name; CTP_NONE when there is none. */
uint32_t import_find_format(const char *name);

/* The bytes of a file of that name into `g`, which the caller frees, whatever happens. */
int import_bytes(const void *bytes, size_t size, const char *name,
                 const struct import_options *options, struct gather *g, struct ct_error *err);

/* The formats, each in a file of its own. `g` is empty. */
int import_folded(const char *text, size_t size, const char *name,
                  const struct import_options *options, struct gather *g, struct ct_error *err);
int import_perf_script(const char *text, size_t size, const char *name, struct gather *g,
                       struct ct_error *err);
int import_pprof(const uint8_t *bytes, size_t size, const char *name, struct gather *g,
                 struct ct_error *err);

/* Whether a line is the first of a sample of perf script: it names an event, or a frame follows. */
bool perf_script_begins_with(const char *line, size_t length, const char *next, size_t next_length);

/* The next line of a text, without its end. Returns false behind the last. */
struct text_lines {
    const char *at, *end;
    const char *line;
    size_t length;
    uint64_t number; /* from 1 */
};
bool next_line(struct text_lines *lines);

#endif
