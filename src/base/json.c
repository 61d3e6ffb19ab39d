#include "base/json.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>

struct json json_to(FILE *out)
{
    return (struct json){.out = out, .lines_down_to = 2, .first = true};
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Bytes that are not UTF-8 are written as utf8.h says. */
static void write_string(FILE *out, const char *text)
{
    putc_unlocked('"', out);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t plain = 0;
        while (is_plain(s[plain]))
            plain++;
        fwrite_unlocked(s, 1, plain, out);
        s += plain;
        int length = *s >= 0x80 ? utf8_length(s) : 0;
        if (length) {
            fwrite_unlocked(s, 1, (size_t)length, out);
            s += length;
        } else if (*s == '"' || *s == '\\') {
            fprintf(out, "\\%c", *s++);
        } else if (*s) {
            fprintf(out, "\\u%04x", *s++);
        }
    }
    putc_unlocked('"', out);
}

static void new_line(struct json *j)
{
    putc_unlocked('\n', j->out);
    for (unsigned i = 0; i < j->depth * 2; i++)
        putc_unlocked(' ', j->out);
}

static void begin(struct json *j, const char *key)
{
    if (!j->first)
        putc_unlocked(',', j->out);
    if (j->depth > j->lines_down_to)
        fputs_unlocked(j->first ? "" : " ", j->out);
    else if (j->depth)
        new_line(j);
    if (key) {
        write_string(j->out, key);
        fputs_unlocked(": ", j->out);
    }
    j->first = false;
}

void json_open(struct json *j, const char *key, char bracket)
{
    begin(j, key);
    putc_unlocked(bracket, j->out);
    j->depth++;
    j->first = true;
}

void json_close(struct json *j, char bracket)
{
    bool on_one_line = j->depth-- > j->lines_down_to;
    if (!j->first && !on_one_line)
        new_line(j);
    putc_unlocked(bracket, j->out);
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
    char text[24], *at = text + sizeof text;
    *--at = '\0';
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    json_literal(j, key, at);
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
    fputs_unlocked(value, j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
    json_literal(j, key, value ? "true" : "false");
}
