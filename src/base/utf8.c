#include "base/utf8.h"

#include "base/vec.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int utf8_length(const unsigned char *s)
{
    int more = s[0] >= 0xc2 && s[0] <= 0xdf   ? 1
               : s[0] >= 0xe0 && s[0] <= 0xef ? 2
               : s[0] >= 0xf0 && s[0] <= 0xf4 ? 3
                                              : 0;
    for (int i = 1; i <= more; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return more ? more + 1 : 0;
}

/* The same as the page's, in page/format.js; of three bytes all. */
static bool is_hidden(unsigned code)
{
    return (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2060 && code <= 0x2069) || code == 0x061c || code == 0xfeff;
}

size_t utf8_shown(const char *text, char shown[UTF8_SHOWN_ROOM])
{
    const unsigned char *s = (const unsigned char *)text;
    size_t length = *s >= 0x80 ? (size_t)utf8_length(s) : 1;
    unsigned code = length == 2   ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                    : length == 3 ? (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu)
                                  : 0;
    if (length == 0 || (length == 1 && (*s < 0x20 || *s == 0x7f))) {
        snprintf(shown, UTF8_SHOWN_ROOM, "\\x%02x", *s);
        return 1;
    }
    if (length == 2 && code < 0xa0)
        snprintf(shown, UTF8_SHOWN_ROOM, "\\x%02x\\x%02x", s[0], s[1]);
    else if (is_hidden(code))
        snprintf(shown, UTF8_SHOWN_ROOM, "\\u%04x", code);
    else
        snprintf(shown, UTF8_SHOWN_ROOM, "%.*s", (int)length, text);
    return length;
}

char *utf8_copy(const char *text)
{
    char *copy = must_realloc(NULL, strlen(text) * 2 + 1, 1), *to = copy;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int length = *s >= 0x80 ? utf8_length(s) : 1;
        if (length) {
            memcpy(to, s, (size_t)length);
            to += length;
            s += length;
        } else {
            *to++ = (char)(0xc0 | *s >> 6);
            *to++ = (char)(0x80 | (*s & 0x3f));
            s++;
        }
    }
    *to = '\0';
    return copy;
}
