#include "base/utf8.h"

#include "base/vec.h"

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
