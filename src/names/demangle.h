/*
 * Names as people write them: C++ (Itanium ABI) and Rust (both manglings) by GNU's demangler.
 *
 * Profiles keep mangled names. Whatever shows names goes through here.
 */
#ifndef NAMES_DEMANGLE_H
#define NAMES_DEMANGLE_H

/* The name in the language of its source, to be freed; NULL when it is not a mangled one. */
char *demangle(const char *name);

#endif
