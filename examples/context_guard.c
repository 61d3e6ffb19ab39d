/*
 * Reports what a program does in a way that it never did before: files that are opened, and
 * programs and connections that are started, from calling contexts that no training run had.
 *
 *     cc -O2 -shared -fPIC -o context_guard.so context_guard.c $(pkg-config --cflags calltrail)
 *     export LD_PRELOAD=./context_guard.so CONTEXT_GUARD=known.keys
 *     CONTEXT_GUARD_LEARN=1 calltrail record --engine encode ./server      as often as one likes
 *     calltrail record --engine encode ./server 2>server.log
 *     calltrail decode <server.log
 *
 * Keys of contexts are the same in each run of the same files. What is known is a file of keys, one
 * in each line, to which learning adds.
 */
#define _GNU_SOURCE
#include <calltrail.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 1 << 16 };

static uint64_t known[ROOM];
static int learn_to = -1, is_guarding;

/* 1: it is new. */
static int add(uint64_t key)
{
    for (uint64_t i = key; i < key + ROOM; i++) {
        uint64_t there = 0, *at = &known[i % ROOM];
        if (__atomic_load_n(at, __ATOMIC_RELAXED) == key)
            return 0;
        if (__atomic_compare_exchange_n(at, &there, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
        if (there == key)
            return 0;
    }
    return 0;
}

static void look(const char *what, const struct ct_snapshot *s)
{
    char text[CT_TEXT_BYTES];
    uint64_t key = is_guarding ? ct_key(s) : 0;
    if (!key || !add(key))
        return;
    if (learn_to >= 0) {
        dprintf(learn_to, "%016llx\n", (unsigned long long)key);
        return;
    }
    ct_print(s, text, sizeof text);
    dprintf(2, "never seen: %s in %s\n", what, text);
}

#define LOOK(what)                                                                                 \
    do {                                                                                           \
        struct ct_snapshot here_;                                                                  \
        if (ct_here(&here_))                                                                       \
            look(what, &here_);                                                                    \
    } while (0)

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    LOOK("open");
    return REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    LOOK("open");
    return REAL(open64)(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    LOOK("fopen");
    return REAL(fopen)(path, mode);
}

int unlink(const char *path)
{
    LOOK("unlink");
    return REAL(unlink)(path);
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
    LOOK("execve");
    return REAL(execve)(path, arguments, environment);
}

int connect(int socket, const struct sockaddr *to, socklen_t bytes)
{
    LOOK("connect");
    return REAL(connect)(socket, to, bytes);
}

static __attribute__((constructor)) void begin(void)
{
    const char *path = getenv("CONTEXT_GUARD"), *learn = getenv("CONTEXT_GUARD_LEARN");
    struct ct_snapshot s;
    unsigned long long key;
    if (!path || !ct_here(&s))
        return; /* it is not recorded, as `calltrail` itself */
    FILE *file = REAL(fopen)(path, "re");
    while (file && fscanf(file, "%llx", &key) == 1)
        add(key);
    if (file)
        fclose(file);
    if (learn && *learn)
        learn_to = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    is_guarding = file || learn_to >= 0;
}
