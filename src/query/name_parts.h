/*
 * The parts of a function's name, and whether it answers to what was typed.
 *
 * A demangled name is long: `void std::sort<It>(It, It)`. People say `std::sort`, or `sort`, or
 * copy what a report showed them, where some of it was replaced by an ellipsis.
 */
#ifndef QUERY_NAME_PARTS_H
#define QUERY_NAME_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct name_parts {
    size_t start;      /* behind the return type */
    size_t base;       /* behind the scopes; an operator and a lambda keep the one they are in */
    size_t parameters; /* where they begin; the end of the name where there are none */
};
struct name_parts name_parts(const char *name);

/* Behind the bracket that closes the one at `at`, or NULL where none does. */
const char *name_skip_brackets(const char *at);

/* The end of the word at `at` if that is the name of an operator, whose brackets are not brackets:
 * operator<<, operator()… Else `at`. */
const char *name_skip_operator(const char *name, const char *at);

/* Whether the text is the pattern, in which an ellipsis stands for anything. */
bool name_fits(const char *pattern, const char *text);

/* How well a name is what was typed; the best comes first. */
enum name_match {
    NAME_SAME,  /* the whole name */
    NAME_SHOWN, /* with its scopes; without parameters or template arguments, or with ellipses */
    NAME_BASE,  /* without scopes */
    NAME_OTHER,
};
enum name_match name_match(const char *name, const char *typed);

#endif
