/*
 * A run of readelf whose output is read line by line, and what its dumps of frames have in common.
 */
#ifndef ORACLE_READELF_RUN_H
#define ORACLE_READELF_RUN_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct readelf_run {
    const char *path;
    pid_t pid;
    int output;   /* a pipe from its stdout */
    int messages; /* a file in memory that holds its stderr */
    char *buffer;
    size_t at, end; /* the part of the buffer that has not been given out */
};

/* Starts `readelf OPTION -- PATH`; the path must live as long as the run. */
int readelf_start(const char *option, const char *path, struct readelf_run *out,
                  struct ct_error *err);

/* The next line, without newline and ended by a zero byte, until the next call; NULL at the end. */
char *readelf_line(struct readelf_run *run, size_t *length);

/*
 * Waits for the end. What it wrote to stderr goes to `warning` (its first line, "" if none); an
 * exit status other than 0 is an error.
 */
int readelf_finish(struct readelf_run *run, char *warning, size_t warning_size,
                   struct ct_error *err);

/* Is this the first line of a section's dump, and of .eh_frame's? */
bool readelf_section_line(const char *line, bool *in_eh_frame);

/* Does a line begin a CIE or FDE? "00000018 0000000000000024 0000001c FDE ..." */
bool readelf_entry_line(const char *line, size_t length);

/* Pieces of lines. Each returns the position behind what it has read. */
const char *skip_spaces(const char *at);
const char *parse_hex(const char *at, uint64_t *value);
const char *parse_number(const char *at, int64_t *value); /* decimal, with or without a sign */

#endif
