#include "base/vec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *or_die(void *memory)
{
    if (!memory) {
        fputs("calltrail: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void *must_realloc(void *old, size_t count, size_t size)
{
    return or_die(reallocarray(old, count ? count : 1, size));
}

void *must_calloc(size_t count, size_t size)
{
    return or_die(calloc(count ? count : 1, size));
}

char *must_strdup(const char *text)
{
    return or_die(strdup(text));
}

char *must_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    return or_die(length < 0 ? NULL : text);
}
