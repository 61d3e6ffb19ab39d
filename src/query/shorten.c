#include "query/shorten.h"

#include "base/utf8.h"
#include "base/vec.h"
#include "query/name_parts.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { OWN_BRACKETS = 10 }; /* columns of names such as [vsyscall] */

char *text_clean(const char *text)
{
    VEC(char) clean = {0};
    char shown[UTF8_SHOWN_ROOM];
    for (const char *at = text; *at;) {
        at += utf8_shown(at, shown);
        for (const char *c = shown; *c; c++)
            vec_push(&clean, *c);
    }
    vec_push(&clean, '\0');
    return clean.items;
}

static bool starts_character(char c)
{
    return (c & 0xc0) != 0x80;
}

size_t text_columns(const char *clean)
{
    size_t columns = 0;
    for (; *clean; clean++)
        columns += starts_character(*clean);
    return columns;
}

/* Takes the bytes [from, to) out of a text. */
static void remove_bytes(char *text, size_t from, size_t to)
{
    memmove(text + from, text + to, strlen(text + to) + 1);
}

/*
 * What is between brackets of this kind becomes an ellipsis, or goes with its brackets where it is
 * one already and `drop` is set. A few letters are as good as an ellipsis, and say more.
 */
static void fold(char *name, char open, bool drop, bool unicode)
{
    for (char *at = name; *at;) {
        const char *operator_end = name_skip_operator(name, at);
        const char *end = operator_end == at && *at == open ? name_skip_brackets(at) : NULL;
        if (!end) {
            at = operator_end > at ? name + (operator_end - name) : at + 1;
            continue;
        }
        size_t first = (size_t)(at + 1 - name), last = (size_t)(end - 1 - name);
        /* (anonymous namespace), (*Type), <Type as Trait> */
        bool scope = at == name || (open == '(' && strchr(": .", at[-1]));
        if (drop && !scope) {
            remove_bytes(name, first - 1, last + 1);
        } else {
            if (last - first > 3 && !scope) {
                memcpy(name + first, unicode ? "…" : "...", 3);
                remove_bytes(name, first + 3, last);
                last = first + 3;
            }
            at = name + last + 1;
        }
    }
}

/* The outermost scope goes. False when there is none. */
static bool drop_scope(char *name)
{
    size_t base = name_parts(name).base;
    for (const char *at = name; at < name + base;) {
        const char *end = strchr("<({[", *at) ? name_skip_brackets(at) : NULL;
        if (!end && strncmp(at, "::", 2) == 0) {
            remove_bytes(name, 0, (size_t)(at + 2 - name));
            return true;
        }
        at = end ? end : at + 1;
    }
    return false;
}

static char *skip_characters(char *at, size_t count)
{
    for (; *at; at++)
        if (starts_character(*at) && count-- == 0)
            break;
    return at;
}

static void cut_middle(char *name, size_t columns, bool unicode)
{
    size_t all = text_columns(name), dots = unicode ? 1 : 3;
    if (columns < 8) {
        *skip_characters(name, columns) = '\0';
        return;
    }
    size_t tail = (columns - dots) / 2, head = columns - dots - tail;
    char *cut = skip_characters(name, head), *rest = skip_characters(name, all - tail);
    /* At least as many bytes are cut as an ellipsis has, if not as many columns. */
    if (rest - cut < 3)
        rest = skip_characters(name, all - tail + (size_t)(3 - (rest - cut)));
    memcpy(cut, unicode ? "…" : "...", 3);
    memmove(cut + 3, rest, strlen(rest) + 1);
}

void name_shorten(char *clean, size_t columns, bool unicode)
{
    /* What is all in brackets is no function but a remark, such as why a walk ended. */
    const char *closed = strchr(clean, ')');
    if (*clean != '(' || !closed || closed[1]) {
        remove_bytes(clean, 0, name_parts(clean).start);
        fold(clean, '<', false, unicode);
        if (text_columns(clean) > columns)
            fold(clean, '(', false, unicode);
        if (text_columns(clean) > columns)
            clean[name_parts(clean).parameters] = '\0';
        while (text_columns(clean) > columns && drop_scope(clean))
            continue;
        if (text_columns(clean) > columns)
            fold(clean, '<', true, unicode);
    }
    if (text_columns(clean) > columns)
        cut_middle(clean, columns, unicode);
}

void module_shorten(char *clean, size_t columns, bool unicode)
{
    char *version = strstr(clean, ".so");
    if (text_columns(clean) > columns && version && version > clean &&
        (version[3] == '\0' || version[3] == '.'))
        *version = '\0';
    /* [vdso] has brackets of its own, which nothing is cut of. */
    if (text_columns(clean) <= columns || (*clean == '[' && text_columns(clean) <= OWN_BRACKETS))
        return;
    const char *dots = *clean == '[' ? (unicode ? "…]" : "...]") : unicode ? "…" : "...";
    size_t kept = columns > text_columns(dots) ? columns - text_columns(dots) : 0;
    /* As many bytes must have been there as are put in their place. */
    while (kept > 0 && strlen(skip_characters(clean, kept)) < strlen(dots))
        kept--;
    memcpy(skip_characters(clean, kept), dots, strlen(dots) + 1);
}

void text_cut(char *clean, size_t columns)
{
    char *c = clean;
    for (size_t used = 0; *c && used < columns; used++)
        do
            c++;
        while (((unsigned char)*c & 0xc0) == 0x80);
    *c = '\0';
}
