/*
 * Stand-ins for stdio (-e io). Its buffers are filled and written out inside libc, where no
 * stand-in can stand in: so a call is charged with the bytes that it takes from a buffer or puts
 * into one, which is what people want to know of it anyway. What the kernel counts beyond that
 * (read ahead, buffers that macros fill) is not attributed.
 *
 * Calls with variable arguments may get floating-point ones: this file is compiled with vector
 * registers, unlike all others.
 */
#include "runtime/io.h"
#include "runtime/standins.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void charge(const void *function, FILE *file, enum arena_value value, ssize_t bytes)
{
    if (bytes <= 0 || !charge_wanted(EVENT_IO))
        return;
    int before = errno, fd = fileno(file); /* memory that looks like a file has none */
    if (fd >= 0)
        io_charge(charge_context(function), fd, value, bytes, true);
    errno = before;
}

#define READ(name, file, bytes) charge((const void *)real_##name, file, VALUE_READ_BYTES, bytes)
#define WRITTEN(name, file, bytes)                                                                 \
    charge((const void *)real_##name, file, VALUE_WRITTEN_BYTES, bytes)

/* --- blocks ------------------------------------------------------------------------------------
 */

#define READS_BLOCKS(name)                                                                         \
    STANDS_IN_FOR(size_t, name, (void *restrict, size_t, size_t, FILE *restrict))                  \
    EXPORTED size_t name(void *restrict to, size_t size, size_t count, FILE *restrict file)        \
    {                                                                                              \
        size_t done = REAL(name)(to, size, count, file);                                           \
        READ(name, file, (ssize_t)(done * size));                                                  \
        return done;                                                                               \
    }
#define WRITES_BLOCKS(name)                                                                        \
    STANDS_IN_FOR(size_t, name, (const void *restrict, size_t, size_t, FILE *restrict))            \
    EXPORTED size_t name(const void *restrict from, size_t size, size_t count,                     \
                         FILE *restrict file)                                                      \
    {                                                                                              \
        size_t done = REAL(name)(from, size, count, file);                                         \
        WRITTEN(name, file, (ssize_t)(done * size));                                               \
        return done;                                                                               \
    }

#undef fread_unlocked
#undef fwrite_unlocked

READS_BLOCKS(fread)
READS_BLOCKS(fread_unlocked)
WRITES_BLOCKS(fwrite)
WRITES_BLOCKS(fwrite_unlocked)

size_t __fread_chk(void *restrict to, size_t room, size_t size, size_t count, FILE *restrict file);
STANDS_IN_FOR(size_t, __fread_chk, (void *restrict, size_t, size_t, size_t, FILE *restrict))
EXPORTED size_t __fread_chk(void *restrict to, size_t room, size_t size, size_t count,
                            FILE *restrict file)
{
    size_t done = REAL(__fread_chk)(to, room, size, count, file);
    READ(__fread_chk, file, (ssize_t)(done * size));
    return done;
}

/* --- lines -------------------------------------------------------------------------------------
 */

/* A line may hold zeros: what is behind the last one written by this call is not known. */
static ssize_t line_bytes(const char *line)
{
    return line ? (ssize_t)strlen(line) : 0;
}

STANDS_IN_FOR(char *, fgets, (char *restrict, int, FILE *restrict))
EXPORTED char *fgets(char *restrict to, int room, FILE *restrict file)
{
    char *line = REAL(fgets)(to, room, file);
    READ(fgets, file, line_bytes(line));
    return line;
}

char *__fgets_chk(char *restrict to, size_t size, int room, FILE *restrict file);
STANDS_IN_FOR(char *, __fgets_chk, (char *restrict, size_t, int, FILE *restrict))
EXPORTED char *__fgets_chk(char *restrict to, size_t size, int room, FILE *restrict file)
{
    char *line = REAL(__fgets_chk)(to, size, room, file);
    READ(__fgets_chk, file, line_bytes(line));
    return line;
}

STANDS_IN_FOR(ssize_t, getline, (char **restrict, size_t *restrict, FILE *restrict))
EXPORTED ssize_t getline(char **restrict line, size_t *restrict room, FILE *restrict file)
{
    ssize_t bytes = REAL(getline)(line, room, file);
    READ(getline, file, bytes);
    return bytes;
}

#define READS_TO_DELIMITER(name)                                                                   \
    ssize_t name(char **restrict line, size_t *restrict room, int end, FILE *restrict file);       \
    STANDS_IN_FOR(ssize_t, name, (char **restrict, size_t *restrict, int, FILE *restrict))         \
    EXPORTED ssize_t name(char **restrict line, size_t *restrict room, int end,                    \
                          FILE *restrict file)                                                     \
    {                                                                                              \
        ssize_t bytes = REAL(name)(line, room, end, file);                                         \
        READ(name, file, bytes);                                                                   \
        return bytes;                                                                              \
    }

READS_TO_DELIMITER(getdelim)
READS_TO_DELIMITER(__getdelim) /* what getline is in headers with inline functions */

#define WRITES_TEXT(name)                                                                          \
    STANDS_IN_FOR(int, name, (const char *restrict, FILE *restrict))                               \
    EXPORTED int name(const char *restrict text, FILE *restrict file)                              \
    {                                                                                              \
        int status = REAL(name)(text, file);                                                       \
        WRITTEN(name, file, status < 0 ? 0 : line_bytes(text));                                    \
        return status;                                                                             \
    }

WRITES_TEXT(fputs)
WRITES_TEXT(fputs_unlocked)

STANDS_IN_FOR(int, puts, (const char *))
EXPORTED int puts(const char *text)
{
    int status = REAL(puts)(text);
    WRITTEN(puts, stdout, status < 0 ? 0 : line_bytes(text) + 1);
    return status;
}

/* --- characters --------------------------------------------------------------------------------
 */

#undef getc
#undef putc
#undef getchar
#undef putchar

#define READS_CHARACTER(name)                                                                      \
    STANDS_IN_FOR(int, name, (FILE *))                                                             \
    EXPORTED int name(FILE *file)                                                                  \
    {                                                                                              \
        int c = REAL(name)(file);                                                                  \
        READ(name, file, c != EOF);                                                                \
        return c;                                                                                  \
    }
#define WRITES_CHARACTER(name)                                                                     \
    STANDS_IN_FOR(int, name, (int, FILE *))                                                        \
    EXPORTED int name(int c, FILE *file)                                                           \
    {                                                                                              \
        int done = REAL(name)(c, file);                                                            \
        WRITTEN(name, file, done != EOF);                                                          \
        return done;                                                                               \
    }

READS_CHARACTER(fgetc)
READS_CHARACTER(getc)
WRITES_CHARACTER(fputc)
WRITES_CHARACTER(putc)

STANDS_IN_FOR(int, getchar, (void))
EXPORTED int getchar(void)
{
    int c = REAL(getchar)();
    READ(getchar, stdin, c != EOF);
    return c;
}

STANDS_IN_FOR(int, putchar, (int))
EXPORTED int putchar(int c)
{
    int done = REAL(putchar)(c);
    WRITTEN(putchar, stdout, done != EOF);
    return done;
}

/* --- formats -----------------------------------------------------------------------------------
 */

STANDS_IN_FOR(int, vfprintf, (FILE *restrict, const char *restrict, va_list))
EXPORTED int vfprintf(FILE *restrict file, const char *restrict format, va_list values)
{
    int bytes = REAL(vfprintf)(file, format, values);
    WRITTEN(vfprintf, file, bytes);
    return bytes;
}

STANDS_IN_FOR(int, vprintf, (const char *restrict, va_list))
EXPORTED int vprintf(const char *restrict format, va_list values)
{
    int bytes = REAL(vprintf)(format, values);
    WRITTEN(vprintf, stdout, bytes);
    return bytes;
}

/* The real ones take a list: the function that is shown is still the one that was called. */
STANDS_IN_FOR(int, printf, (const char *restrict, ...))
EXPORTED int printf(const char *restrict format, ...)
{
    va_list values;
    va_start(values, format);
    int bytes = REAL(vprintf)(format, values);
    va_end(values);
    WRITTEN(printf, stdout, bytes);
    return bytes;
}

STANDS_IN_FOR(int, fprintf, (FILE *restrict, const char *restrict, ...))
EXPORTED int fprintf(FILE *restrict file, const char *restrict format, ...)
{
    va_list values;
    va_start(values, format);
    int bytes = REAL(vfprintf)(file, format, values);
    va_end(values);
    WRITTEN(fprintf, file, bytes);
    return bytes;
}

/* What these are called as in programs that were built with _FORTIFY_SOURCE. */
int __vfprintf_chk(FILE *restrict file, int flag, const char *restrict format, va_list values);
int __vprintf_chk(int flag, const char *restrict format, va_list values);
int __printf_chk(int flag, const char *restrict format, ...);
int __fprintf_chk(FILE *restrict file, int flag, const char *restrict format, ...);

STANDS_IN_FOR(int, __vfprintf_chk, (FILE *restrict, int, const char *restrict, va_list))
EXPORTED int __vfprintf_chk(FILE *restrict file, int flag, const char *restrict format,
                            va_list values)
{
    int bytes = REAL(__vfprintf_chk)(file, flag, format, values);
    WRITTEN(__vfprintf_chk, file, bytes);
    return bytes;
}

STANDS_IN_FOR(int, __vprintf_chk, (int, const char *restrict, va_list))
EXPORTED int __vprintf_chk(int flag, const char *restrict format, va_list values)
{
    int bytes = REAL(__vprintf_chk)(flag, format, values);
    WRITTEN(__vprintf_chk, stdout, bytes);
    return bytes;
}

STANDS_IN_FOR(int, __printf_chk, (int, const char *restrict, ...))
EXPORTED int __printf_chk(int flag, const char *restrict format, ...)
{
    va_list values;
    va_start(values, format);
    int bytes = REAL(__vprintf_chk)(flag, format, values);
    va_end(values);
    WRITTEN(__printf_chk, stdout, bytes);
    return bytes;
}

STANDS_IN_FOR(int, __fprintf_chk, (FILE *restrict, int, const char *restrict, ...))
EXPORTED int __fprintf_chk(FILE *restrict file, int flag, const char *restrict format, ...)
{
    va_list values;
    va_start(values, format);
    int bytes = REAL(__vfprintf_chk)(file, flag, format, values);
    va_end(values);
    WRITTEN(__fprintf_chk, file, bytes);
    return bytes;
}
