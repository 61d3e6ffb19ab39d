#include "base/vec.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static void *or_die(void *memory)
{
    if (!memory) {
        fputs("calltrail: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

/*
 * Arrays of many MB are filled to their end, and are there at once in large pages: with small ones,
 * a tree of a million nodes takes longer to get its memory than to be made. The kernel may decline.
 */
static void *in_large_pages(void *memory, size_t count, size_t size)
{
    const uintptr_t page = (uintptr_t)2 << 20;
    if (count < 2 * page / size)
        return memory;
    uintptr_t start = ((uintptr_t)memory + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + count * size) & ~(page - 1);
    if (start < end)
        madvise((void *)start, end - start, MADV_HUGEPAGE);
    return memory;
}

void *must_realloc(void *old, size_t count, size_t size)
{
    return in_large_pages(or_die(reallocarray(old, count ? count : 1, size)), count, size);
}

void *must_calloc(size_t count, size_t size)
{
    return in_large_pages(or_die(calloc(count ? count : 1, size)), count, size);
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
