/*
 * Names in ELF files are bytes; other tools want UTF-8. A byte that does not belong to a
 * well-formed UTF-8 sequence becomes the code point of the same value, so that what is written
 * always parses.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* The bytes of the well-formed sequence of two to four bytes at `s`, which ends with a zero byte
 * sooner or later; 0 when there is none. */
int utf8_length(const unsigned char *s);

/*
 * What people may be shown of the character at `text`, on a terminal: itself, or \xNN for its bytes
 * where it is a control (C1 too, which some terminals obey) or no UTF-8, or \uNNNN where it cannot
 * be seen or turns the direction of writing. Returns its bytes; `shown` ends with a zero byte.
 */
enum { UTF8_SHOWN_ROOM = 12 };
size_t utf8_shown(const char *text, char shown[UTF8_SHOWN_ROOM]);

/* A well-formed copy, which the caller frees. */
char *utf8_copy(const char *text);

#endif
