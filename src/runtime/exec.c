/*
 * Programs that the program starts. The environment that it gives them has not got our variables:
 * they are put back for every exec, so that the new program is recorded too.
 *
 * A child of vfork runs in its parent's memory, so nothing here writes to any memory but the stack.
 */
#include "runtime/channel_format.h"
#include "runtime/process.h"

#include "arch/x86_64/syscall.h"
#include "runtime/thread.h"

#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static const char *preload; /* "LD_PRELOAD=…/libcalltrail-rt.so", and the channel's variable */
static const char *channel;
static bool follow; /* unlike guest->flags, a child that nobody told of its birth knows it too */

static int (*real_execve)(const char *, char *const[], char *const[]);
static int (*real_execvpe)(const char *, char *const[], char *const[]);
static int (*real_fexecve)(int, char *const[], char *const[]);
static int (*real_posix_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                               const posix_spawnattr_t *, char *const[], char *const[]);
static int (*real_posix_spawnp)(pid_t *, const char *, const posix_spawn_file_actions_t *,
                                const posix_spawnattr_t *, char *const[], char *const[]);
static pid_t (*real_fork)(void);
static FILE *(*real_popen)(const char *, const char *);

void exec_put_back(const char *preload_variable, const char *channel_variable)
{
    preload = preload_variable;
    channel = channel_variable;
}

void exec_prepare(void)
{
    real_execve = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execve");
    real_execvpe = (int (*)(const char *, char *const[], char *const[]))dlsym(RTLD_NEXT, "execvpe");
    real_fexecve = (int (*)(int, char *const[], char *const[]))dlsym(RTLD_NEXT, "fexecve");
    *(void **)&real_posix_spawn = dlsym(RTLD_NEXT, "posix_spawn");
    *(void **)&real_posix_spawnp = dlsym(RTLD_NEXT, "posix_spawnp");
    *(void **)&real_fork = dlsym(RTLD_NEXT, "_Fork");
    *(void **)&real_popen = dlsym(RTLD_NEXT, "popen");
}

void exec_follow(bool wanted)
{
    follow = wanted;
}

/* A fork that runs no atfork handlers: the child is told here. */
EXPORTED pid_t _Fork(void)
{
    pid_t pid = real_fork();
    if (pid == 0)
        begin_in_child();
    return pid;
}

/* A program that starts under a filter of its parent's could be killed by what we do there. */
static bool follows(void)
{
    return channel && follow && !is_confined();
}

/* How much room put_back needs: the pointers, and the text of a joined LD_PRELOAD. */
static size_t room_for(char *const environment[], size_t *text)
{
    size_t n = 0;
    *text = 0;
    for (; environment && environment[n]; n++)
        if (strncmp(environment[n], "LD_PRELOAD=", 11) == 0)
            *text = strlen(environment[n]) + strlen(preload) + 2;
    return (n + 3) * sizeof *environment;
}

static char **put_back(char **out, char *text, char *const environment[])
{
    size_t k = 0;
    bool joined = false;
    for (size_t n = 0; environment && environment[n]; n++) {
        if (strncmp(environment[n], "LD_PRELOAD=", 11) == 0 && environment[n][11]) {
            size_t length = strlen(preload);
            memcpy(text, preload, length);
            text[length] = ':';
            strcpy(text + length + 1, environment[n] + 11);
            out[k++] = text;
            joined = true;
        } else {
            out[k++] = environment[n];
        }
    }
    if (!joined)
        out[k++] = (char *)preload;
    out[k++] = (char *)channel;
    out[k] = NULL;
    return out;
}

/* What is known of a program before it is started. */
enum newcomer {
    NOT_FOLLOWED,
    HOSTS_US,
    IS_OUTSIDE /* the supervisor records it from there */
};

static enum newcomer look_at_program(uint32_t kind, const char *file, bool searches)
{
    return !follows()                               ? NOT_FOLLOWED
           : program_may_host(kind, file, searches) ? HOSTS_US
                                                    : IS_OUTSIDE;
}

/* On the caller's stack, since there may be no other memory to write to. */
#define WITH_OURS(environment, newcomer)                                                           \
    ({                                                                                             \
        char *const *given_ = (environment);                                                       \
        size_t text_, bytes_ = (newcomer) == HOSTS_US ? room_for(given_, &text_) : 0;              \
        bytes_ ? put_back(alloca(bytes_), alloca(text_ + 1), given_) : (char **)given_;            \
    })

/*
 * Before this process becomes another program: no more samples, and none pending, since the new
 * program has no handler and would die of it (pitfall 40). Not in a child of vfork, which has no
 * event of its own.
 */
static struct thread *stop_sampling(void)
{
    struct thread *t = thread_self();
    if (guest->arena && is_confined()) { /* ignored signals are not pending */
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        masks_real_sigaction(SAMPLE_SIGNAL, &ignore, NULL);
        return NULL;
    }
    if (!guest->arena || !t || t->tid != (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0))
        return NULL;
    say_cpu_time();
    uint64_t ours = UINT64_C(1) << (SAMPLE_SIGNAL - 1), before;
    struct timespec none = {0};
    raw_syscall4(SYS_rt_sigprocmask, SIG_BLOCK, (long)&ours, (long)&before, 8);
    event_stop(t);
    while (raw_syscall4(SYS_rt_sigtimedwait, (long)&ours, 0, (long)&none, 8) == SAMPLE_SIGNAL)
        ;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, 8);
    return t;
}

/* The new program did not come to be. */
static int exec_failed(struct thread *t, enum newcomer newcomer, int status)
{
    int why = errno;
    if (newcomer == IS_OUTSIDE)
        channel_say_not_run();
    if (t)
        event_start(t);
    errno = why;
    return status;
}

EXPORTED int execve(const char *path, char *const arguments[], char *const environment[])
{
    enum newcomer newcomer = look_at_program(CHANNEL_RUN, path, false);
    char **ours = WITH_OURS(environment, newcomer);
    struct thread *t = stop_sampling();
    return exec_failed(t, newcomer, real_execve(path, arguments, ours));
}

EXPORTED int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    enum newcomer newcomer = look_at_program(CHANNEL_RUN, file, true);
    char **ours = WITH_OURS(environment, newcomer);
    struct thread *t = stop_sampling();
    return exec_failed(t, newcomer, real_execvpe(file, arguments, ours));
}

EXPORTED int fexecve(int fd, char *const arguments[], char *const environment[])
{
    enum newcomer newcomer = !follows()                             ? NOT_FOLLOWED
                             : program_may_host_fd(CHANNEL_RUN, fd) ? HOSTS_US
                                                                    : IS_OUTSIDE;
    char **ours = WITH_OURS(environment, newcomer);
    struct thread *t = stop_sampling();
    return exec_failed(t, newcomer, real_fexecve(fd, arguments, ours));
}

EXPORTED int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

EXPORTED int execvp(const char *file, char *const arguments[])
{
    return execvpe(file, arguments, environ);
}

/* The arguments of execl and its kin, as an array on the caller's stack; `list` is left behind it.
 */
#define COUNT_ARGUMENTS(list, first)                                                               \
    ({                                                                                             \
        size_t count_ = 1;                                                                         \
        va_start(list, first);                                                                     \
        while (va_arg(list, char *))                                                               \
            count_++;                                                                              \
        va_end(list);                                                                              \
        count_;                                                                                    \
    })

static void take_arguments(char **out, const char *first, size_t count, va_list *list)
{
    out[0] = (char *)first;
    for (size_t i = 1; i <= count; i++)
        out[i] = va_arg(*list, char *);
}

EXPORTED int execl(const char *path, const char *first, ...)
{
    va_list list;
    size_t count = COUNT_ARGUMENTS(list, first);
    char **arguments = alloca((count + 1) * sizeof *arguments);
    va_start(list, first);
    take_arguments(arguments, first, count, &list);
    va_end(list);
    return execve(path, arguments, environ);
}

EXPORTED int execlp(const char *file, const char *first, ...)
{
    va_list list;
    size_t count = COUNT_ARGUMENTS(list, first);
    char **arguments = alloca((count + 1) * sizeof *arguments);
    va_start(list, first);
    take_arguments(arguments, first, count, &list);
    va_end(list);
    return execvpe(file, arguments, environ);
}

EXPORTED int execle(const char *path, const char *first, ...)
{
    va_list list;
    size_t count = COUNT_ARGUMENTS(list, first);
    char **arguments = alloca((count + 1) * sizeof *arguments);
    va_start(list, first);
    take_arguments(arguments, first, count, &list);
    char **environment = va_arg(list, char **);
    va_end(list);
    return execve(path, arguments, environment);
}

/* It is said where a program runs that has not got the runtime in it. */
static int say_spawned(enum newcomer newcomer, int status, pid_t *out, pid_t pid)
{
    if (status == 0 && newcomer == IS_OUTSIDE)
        channel_say_spawned(pid);
    if (status == 0 && out)
        *out = pid;
    return status;
}

EXPORTED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const arguments[],
                         char *const environment[])
{
    pid_t child;
    enum newcomer newcomer = look_at_program(CHANNEL_SPAWN, path, false);
    char **ours = WITH_OURS(environment, newcomer);
    int status = real_posix_spawn(&child, path, actions, attributes, arguments, ours);
    return say_spawned(newcomer, status, pid, child);
}

EXPORTED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                          const posix_spawnattr_t *attributes, char *const arguments[],
                          char *const environment[])
{
    pid_t child;
    enum newcomer newcomer = look_at_program(CHANNEL_SPAWN, file, true);
    char **ours = WITH_OURS(environment, newcomer);
    int status = real_posix_spawnp(&child, file, actions, attributes, arguments, ours);
    return say_spawned(newcomer, status, pid, child);
}

/*
 * glibc's system and popen start the shell with the environment that `environ` points to at that
 * moment. popen returns at once, so it can point to ours for so long; system waits for the command,
 * so it is done here.
 */
EXPORTED FILE *popen(const char *command, const char *type)
{
    char **before = environ;
    enum newcomer newcomer = look_at_program(CHANNEL_SPAWN, "/bin/sh", false);
    environ = WITH_OURS(before, newcomer);
    FILE *stream = real_popen(command, type);
    environ = before;
    return stream;
}

EXPORTED int system(const char *command)
{
    if (!command)
        return 1;
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    sigset_t block, before;
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    sigemptyset(&block);
    sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, &before);

    posix_spawnattr_t attributes;
    sigset_t reset;
    sigemptyset(&reset);
    if (interrupt.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGINT);
    if (quit.sa_handler != SIG_IGN)
        sigaddset(&reset, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &before);
    posix_spawnattr_setsigdefault(&attributes, &reset);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    pid_t pid;
    int status = -1, failed = posix_spawn(&pid, "/bin/sh", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (failed) {
        status = 127 << 8; /* as if the shell had said so */
    } else {
        while (waitpid(pid, &status, 0) < 0) {
            if (errno == EINTR)
                continue;
            status = -1;
            break;
        }
    }
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
