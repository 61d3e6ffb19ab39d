#include "query/name_parts.h"

#include "base/vec.h"

#include <ctype.h>
#include <string.h>

/* Brackets within brackets that are told apart. No name that a person reads has more. */
enum { NESTING_MAX = 64 };

static bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

const char *name_skip_operator(const char *name, const char *at)
{
    static const char word[] = "operator";
    /* Longer ones first. What follows may be template arguments: operator+<char>. */
    static const char *const operators[] = {
        "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "==", "!=", "&&",
        "||",  "++",  "--",  "+=",  "-=", "*=", "/=", "%=", "^=", "&=", "|=", "->"};
    const char *end = at + sizeof word - 1;
    if (strncmp(at, word, sizeof word - 1) != 0 || in_word(*end) || (at > name && in_word(at[-1])))
        return at;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strncmp(end, operators[i], strlen(operators[i])) == 0)
            return end + strlen(operators[i]);
    return end + (*end && strchr("<>=-!+*/%&|^~,", *end));
}

const char *name_skip_brackets(const char *at)
{
    static const char opening[] = "<({[", closing[] = ">)}]";
    char open[NESTING_MAX];
    size_t depth = 0;
    for (const char *name = at; *at;) {
        const char *end = name_skip_operator(name, at), *kind = strchr(opening, *at);
        if (end > at || strncmp(at, "->", 2) == 0) {
            at = end > at ? end : at + 2;
            continue;
        }
        if (kind && depth == NESTING_MAX)
            return NULL;
        if (kind)
            open[depth++] = closing[kind - opening];
        else if (*at == open[depth - 1] && --depth == 0)
            return at + 1;
        at++;
    }
    return NULL;
}

/* What is in round brackets at the beginning of a scope is one: (anonymous namespace), (*Type). */
static bool begins_scope(const char *name, const char *at)
{
    return at == name || strchr(": .", at[-1]);
}

struct name_parts name_parts(const char *name)
{
    struct name_parts parts = {0};
    size_t outer = 0; /* the scope before the last */
    bool in_operator = false, has_parameters = false, closed = true;
    for (const char *at = name; *at;) {
        const char *end = name_skip_operator(name, at);
        if (end > at) {
            in_operator = true; /* what follows may be a type, with spaces: operator new */
        } else if (closed && strchr("<({[", *at)) {
            end = name_skip_brackets(at);
            closed = end != NULL; /* or it was no bracket, and what follows is none */
            end = closed ? end : at + 1;
            if (closed && *at == '(' && !begins_scope(name, at)) {
                parts.parameters = (size_t)(at - name);
                has_parameters = true;
            }
        } else if (strncmp(at, "::", 2) == 0) {
            end = at + 2;
            if (!in_operator || has_parameters) {
                outer = parts.base;
                parts.base = (size_t)(end - name);
                in_operator = has_parameters = false;
            }
        } else {
            end = at + 1;
            /* Not the space before "const" or "[clone]". */
            if (*at == ' ' && !in_operator && !has_parameters && *end != '[')
                outer = parts.base = parts.start = (size_t)(end - name);
        }
        at = end;
    }
    if (!has_parameters) {
        /* No return type then: a space is part of the name. */
        parts.parameters = strlen(name);
        if (parts.start)
            outer = parts.base = parts.start = 0;
    }
    if (strncmp(name + parts.base, "operator", 8) == 0 || strchr("{$", name[parts.base]))
        parts.base = outer;
    return parts;
}

/* Copies of a function that the compiler made, and stubs that lead to it, answer to its name. */
static size_t without_suffix(const char *name, size_t length)
{
    static const char *const suffixes[] = {" [clone ", "@",     ".part.",    ".constprop.",
                                           ".isra.",   ".cold", ".lto_priv."};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *at = strstr(name, suffixes[i]);
        if (at && at > name && (size_t)(at - name) < length)
            length = (size_t)(at - name);
    }
    return length;
}

/* Without template arguments. The caller frees it. */
static char *without_arguments(const char *name)
{
    VEC(char) plain = {0};
    bool closed = true;
    for (const char *at = name; *at;) {
        const char *end = name_skip_operator(name, at);
        if (end == at && closed && *at == '<' && at > name) {
            end = name_skip_brackets(at);
            closed = end != NULL;
            at = closed ? end : at;
            continue;
        }
        for (end = end > at ? end : at + 1; at < end; at++)
            vec_push(&plain, *at);
    }
    vec_push(&plain, '\0');
    return plain.items;
}

static size_t ellipsis(const char *at)
{
    return strncmp(at, "...", 3) == 0 || strncmp(at, "…", 3) == 0 ? 3 : 0;
}

bool name_fits(const char *pattern, const char *text)
{
    const char *retry = NULL, *from = NULL; /* behind the last ellipsis, and where it ended */
    for (;;) {
        size_t skipped = ellipsis(pattern);
        if (skipped) {
            retry = pattern += skipped;
            from = text;
        } else if (!*pattern && !*text) {
            return true;
        } else if (*text && *pattern == *text) {
            pattern++;
            text++;
        } else if (retry && *from) {
            pattern = retry;
            text = ++from;
        } else {
            return false;
        }
    }
}

/* One text that stands for the name: all of it, or what follows a scope. */
static enum name_match match_text(const char *text, const char *typed)
{
    if (name_fits(typed, text))
        return NAME_SHOWN;
    for (const char *at = text + 1; *text && *at; at++)
        if (strchr(":./", at[-1]) && !strchr(":./", *at) && name_fits(typed, at))
            return NAME_BASE;
    return NAME_OTHER;
}

static void match_both(const char *text, const char *typed, enum name_match *best)
{
    char *plain = without_arguments(text);
    enum name_match with = match_text(text, typed), without = match_text(plain, typed);
    *best = with < *best ? with : *best;
    *best = without < *best ? without : *best;
    free(plain);
}

/* The longest word of what was typed, which every name that answers to it has: most do not. */
static bool has_longest_word(const char *name, const char *typed)
{
    const char *longest = typed;
    size_t length = 0;
    for (const char *at = typed; *at;) {
        const char *end = at;
        while (in_word(*end))
            end++;
        if ((size_t)(end - at) > length) {
            longest = at;
            length = (size_t)(end - at);
        }
        at = end > at ? end : at + 1;
    }
    return memmem(name, strlen(name), longest, length) != NULL;
}

enum name_match name_match(const char *name, const char *typed)
{
    if (strcmp(name, typed) == 0)
        return NAME_SAME;
    if (!has_longest_word(name, typed))
        return NAME_OTHER;
    struct name_parts parts = name_parts(name);
    enum name_match best = NAME_OTHER;
    match_both(name + parts.start, typed, &best);
    size_t length = without_suffix(name, parts.parameters);
    if (best != NAME_SHOWN && name[length]) {
        char *call = must_strdup(typed), *head = must_strdup(name + parts.start);
        /* "run()" is run, whatever its parameters are; operator() is another matter. */
        char *empty = strrchr(call, '(');
        if (empty && empty > call && strcmp(empty, "()") == 0 && in_word(empty[-1]) &&
            (empty - call < 8 || strncmp(empty - 8, "operator", 8) != 0))
            *empty = '\0';
        head[length - parts.start] = '\0';
        match_both(head, call, &best);
        free(call);
        free(head);
    }
    return best;
}
