/* The string functions, which the library chooses by processor: most are assembly. */
#include "checksum.h"

#include <string.h>
#include <strings.h>
#include <wchar.h>

int main(void)
{
    static char a[5000], b[5000], c[5000];
    static const size_t sizes[] = {0,  1,  3,  7,  8,   15,  16,  17,  31,   32,
                                   33, 48, 63, 64, 100, 127, 128, 200, 1000, 4200};
    for (size_t i = 0; i < sizeof a - 1; i++)
        a[i] = (char)('a' + i * 7 % 26);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        memcpy(b, a + 1, n);
        b[n] = '\0';
        memmove(b + 3, b, n);
        memmove(b, b + 2, n);
        memset(c, (int)('A' + i), n);
        c[n] = '\0';
        check((unsigned)memcmp(b, c, n) >> 31);
        check(strlen(b) + strnlen(c, n / 2));
        check((uint64_t)((char *)memchr(a, 'z', sizeof a) - a));
        check(memrchr(a, 'q', n) != NULL);
        check(strchr(b, 'k') != NULL);
        check(strrchr(b, 'm') != NULL);
        check((unsigned)strncmp(a, b, n) >> 31);
        check((unsigned)strcasecmp(b, c) >> 31);
        check(strspn(b, "abcdefgh") + strcspn(c, "XYZ"));
        check(strstr(a, "hov") != NULL);
        check((uint64_t)(stpcpy(c, b) - c));
        check((uint64_t)((char *)rawmemchr(b, '\0') - b));
        if (n < 200)
            strncat(c, a, n);
        check(strlen(c));
    }
    check(wcslen(L"some wide text") + (wmemchr(L"wide", L'd', 4) != NULL));
    check(memmem(a, sizeof a, "vcj", 3) != NULL);
    return print_checksum("strings");
}
