/*
 * Names in ELF files are bytes; other tools want UTF-8. A byte that does not belong to a
 * well-formed UTF-8 sequence becomes the code point of the same value, so that what is written
 * always parses.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

/* The bytes of the well-formed sequence of two to four bytes at `s`, which ends with a zero byte
 * sooner or later; 0 when there is none. */
int utf8_length(const unsigned char *s);

/* A well-formed copy, which the caller frees. */
char *utf8_copy(const char *text);

#endif
