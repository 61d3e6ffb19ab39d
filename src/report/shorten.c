#include "report/shorten.h"

#include "base/vec.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *text_clean(const char *text)
{
    VEC(char) clean = {0};
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        /* The C1 controls of UTF-8 (c2 80 to c2 9f) are obeyed by some terminals. */
        bool c1 = *s == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f;
        if (*s >= 0x20 && *s != 0x7f && !c1) {
            vec_push(&clean, (char)*s);
            continue;
        }
        char code[12];
        snprintf(code, sizeof code, c1 ? "\\x%02x\\x%02x" : "\\x%02x", *s, s[1]);
        for (const char *c = code; *c; c++)
            vec_push(&clean, *c);
        s += c1;
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

/* The end of an operator's name, whose brackets are not brackets: operator<<, operator()… `at` is
 * behind the word. */
static const char *skip_operator(const char *at)
{
    if (strncmp(at, "()", 2) == 0)
        return at + 2;
    return at + strspn(at, "<>=-!+*/%&|^~,[]");
}

/* Replaces by "..." what is between brackets at this depth of nesting (1 is the outermost), if that
 * is shorter. Parameters are the round brackets outside of template arguments. */
static void collapse(char *name, char open, char close, int depth)
{
    static const char word[] = "operator";
    char *to = name;
    int nesting = 0, angles = 0;
    const char *inside = NULL; /* where the text to be replaced begins */
    for (const char *at = name; *at;) {
        if (strncmp(at, word, sizeof word - 1) == 0) {
            const char *end = skip_operator(at + sizeof word - 1);
            for (; at < end; at++)
                if (!inside)
                    *to++ = *at;
            continue;
        }
        bool arrow = *at == '>' && at > name && at[-1] == '-';
        angles += *at == '<' ? 1 : *at == '>' && !arrow ? -1 : 0;
        bool counts = open == '<' || angles == 0;
        if (counts && *at == close && !arrow && nesting > 0 && nesting-- == depth && inside) {
            size_t length = (size_t)(at - inside);
            bool keep = length <= 3 || strncmp(inside, "anonymous ", 10) == 0;
            memmove(to, keep ? inside : "...", keep ? length : 3);
            to += keep ? length : 3;
            inside = NULL;
        }
        if (!inside)
            *to++ = *at;
        if (counts && *at == open && nesting++ + 1 == depth)
            inside = at + 1;
        at++;
    }
    /* A bracket that is never closed was none: the rest is kept. */
    if (inside) {
        size_t length = strlen(inside);
        memmove(to, inside, length);
        to += length;
    }
    *to = '\0';
}

static char *skip_characters(char *at, size_t count)
{
    for (; *at; at++)
        if (starts_character(*at) && count-- == 0)
            break;
    return at;
}

static void cut_middle(char *name, size_t columns)
{
    size_t all = text_columns(name);
    if (columns < 8) {
        *skip_characters(name, columns) = '\0';
        return;
    }
    size_t tail = (columns - 3) / 2, head = columns - 3 - tail;
    char *cut = skip_characters(name, head), *rest = skip_characters(name, all - tail);
    memmove(cut, "...", 3);
    memmove(cut + 3, rest, strlen(rest) + 1);
}

void name_shorten(char *clean, size_t columns)
{
    static const struct {
        char open, close;
        int depth;
    } steps[] = {{'<', '>', 2}, {'<', '>', 1}, {'(', ')', 1}};
    /* What is all in brackets is no function but a remark, such as why a walk ended. */
    const char *closed = strchr(clean, ')');
    bool remark = *clean == '(' && closed && closed[1] == '\0';
    for (size_t i = 0; i < 3 && !remark && text_columns(clean) > columns; i++)
        collapse(clean, steps[i].open, steps[i].close, steps[i].depth);
    if (text_columns(clean) > columns)
        cut_middle(clean, columns);
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
