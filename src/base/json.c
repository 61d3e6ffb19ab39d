#include "base/json.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>

/* Elements of arrays deeper than this share a line: one row of a table, one line. */
enum { LINES_DOWN_TO = 2 };

struct json json_to(FILE *out)
{
    return (struct json){.out = out, .first = true};
}

/* Bytes that are not UTF-8 are written as utf8.h says. */
static void write_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int length = *s >= 0x80 ? utf8_length(s) : 0;
        if (length) {
            fwrite(s, 1, (size_t)length, out);
            s += length;
            continue;
        }
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if (*s < 0x20 || *s >= 0x7f)
            fprintf(out, "\\u%04x", *s);
        else
            putc(*s, out);
        s++;
    }
    putc('"', out);
}

static void begin(struct json *j, const char *key)
{
    if (!j->first)
        putc(',', j->out);
    if (j->depth > LINES_DOWN_TO)
        fputs(j->first ? "" : " ", j->out);
    else if (j->depth)
        fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
    if (key) {
        write_string(j->out, key);
        fputs(": ", j->out);
    }
    j->first = false;
}

void json_open(struct json *j, const char *key, char bracket)
{
    begin(j, key);
    putc(bracket, j->out);
    j->depth++;
    j->first = true;
}

void json_close(struct json *j, char bracket)
{
    bool on_one_line = j->depth-- > LINES_DOWN_TO;
    if (!j->first && !on_one_line)
        fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
    putc(bracket, j->out);
    j->first = false;
    if (!j->depth)
        putc('\n', j->out);
}

void json_string(struct json *j, const char *key, const char *value)
{
    begin(j, key);
    write_string(j->out, value);
}

void json_unsigned(struct json *j, const char *key, uint64_t value)
{
    begin(j, key);
    fprintf(j->out, "%" PRIu64, value);
}

void json_signed(struct json *j, const char *key, int64_t value)
{
    begin(j, key);
    fprintf(j->out, "%" PRId64, value);
}

void json_double(struct json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        fprintf(j->out, "%.17g", value);
    else
        fputs("null", j->out);
}

void json_literal(struct json *j, const char *key, const char *value)
{
    begin(j, key);
    fputs(value, j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
    json_literal(j, key, value ? "true" : "false");
}
