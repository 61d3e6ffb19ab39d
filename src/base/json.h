/*
 * JSON, written as it goes. Commas and line breaks are the writer's business; the caller names keys
 * and values. A key of NULL is for elements of an array. The stream is one thread's: no locks.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    unsigned depth;
    unsigned
        lines_down_to; /* elements deeper than this share a line: one row of a table, one line */
    bool first;        /* nothing written yet at this depth */
};

struct json json_to(FILE *out);
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket); /* the outermost close ends the line */
void json_string(struct json *j, const char *key, const char *value);
void json_unsigned(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
void json_double(struct json *j, const char *key, double value); /* null if it is not finite */
void json_literal(struct json *j, const char *key, const char *value); /* as it is: null, 1.5 */
void json_bool(struct json *j, const char *key, bool value);

#endif
