/*
 * Programs that the program starts. The environment that it gives them has not got our variables:
 * they are put back for every exec, so that the new program is recorded too.
 *
 * All of libc's ways to start a program end in its own execve, which it calls directly: system,
 * popen, posix_spawn, wordexp and the execs with other arguments. So there is one place to stand:
 * the system call in libc's execve is replaced by a jump to ours. Nothing else of what these
 * functions promise is touched: signals, cancellation, errors and `environ` are libc's affair.
 *
 * A child of vfork runs in its parent's memory, so nothing here writes to any memory but the stack
 * and the rooms of exec_environment.c.
 */
#include "runtime/exec.h"

#include "arch/x86_64/code_bytes.h"
#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena_map.h"
#include "runtime/channel.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/exec_environment.h"
#include "runtime/exec_target.h"
#include "runtime/libc_own.h"
#include "runtime/masks.h"
#include "runtime/sample_signal.h"
#include "runtime/start.h"
#include "runtime/thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static bool follow; /* unlike guest->flags, a child whose birth was not seen knows it too */

static int (*real_fexecve)(int, char *const[], char *const[]);
static pid_t (*real_fork)(void);

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

/*
 * What a filter for system calls leaves us, on the way to another program. Where it is not known,
 * the call is made as the program makes it, and the new program, which has the filter, too, starts
 * without us: it could be killed by what we do there.
 */
enum leave { LEAVE_ALL, LEAVE_FEW, LEAVE_NONE };

static enum leave find_leave(void)
{
    if (is_confined())
        return may_call_nothing() ? LEAVE_NONE : LEAVE_FEW;
    return confined_by_others() ? LEAVE_NONE : LEAVE_ALL;
}

/*
 * Before this process becomes another program: no more samples, and none pending, since the new
 * program has no handler and would die of it (pitfall 40). Not in a child of vfork, which has no
 * event of its own.
 */
static struct thread *stop_sampling(enum leave leave)
{
    struct thread *t = thread_self();
    if (!guest->arena || leave == LEAVE_NONE)
        return NULL;
    if (leave == LEAVE_FEW) { /* ignored signals are not pending */
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        masks_real_sigaction(SAMPLE_SIGNAL, &ignore, NULL);
        return NULL;
    }
    if (!t || t->tid != (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0))
        return NULL;
    say_cpu_time();
    event_stop_and_drain(t);
    return t;
}

/* libc tries one folder of PATH after the other: where there is no such file, that is all. */
static bool is_missing(int folder, const char *path, int flags, long *status)
{
    struct stat file;
    *status = raw_syscall4(SYS_newfstatat, folder, (long)path, (long)&file, flags);
    return *status == -ENOENT || *status == -ENOTDIR;
}

/*
 * Most of its address space is the program's: with less than this it starts without us. Our own
 * library, maps and arena take 40 MB; what engines that edit have for their first thread, and for
 * stubs, up to 90 more.
 */
static bool leaves_room(void)
{
    const uint64_t least = 96 << 20, least_edited = 224 << 20;
    return arena_limit() >= (engine()->leave_code ? least_edited : least);
}

static long call(int folder, const char *path, char *const arguments[], char *const environment[],
                 int flags)
{
    if (folder == AT_FDCWD && !flags)
        return raw_syscall3(SYS_execve, (long)path, (long)arguments, (long)environment);
    return raw_syscall6(SYS_execveat, folder, (long)path, (long)arguments, (long)environment, flags,
                        0);
}

long exec_at(int folder, const char *path, char *const arguments[], char *const environment[],
             int flags)
{
    long status;
    if (!is_confined() && is_missing(folder, path, flags, &status))
        return status;
    enum leave leave = find_leave();
    struct exec_environment ours = {.variables = environment};
    bool is_followed = leave == LEAVE_ALL && follow;
    bool has_room = is_followed && leaves_room();
    bool is_host = has_room && exec_is_host(folder, path, flags);
    if (is_host)
        ours = exec_environment_make(environment);
    bool is_left_out = is_followed && !has_room && guest->arena;
    if (is_left_out)
        guest->arena->threads_not_sampled++;
    struct thread *t = stop_sampling(leave);
    status = call(folder, path, arguments, ours.variables, flags);
    exec_environment_free(&ours);    /* the new program did not come to be */
    if (status == -E2BIG && is_host) /* with our variables; what the program says may have room */
        status = call(folder, path, arguments, environment, flags);
    if (is_left_out)
        guest->arena->threads_not_sampled--;
    if (has_room && !is_host)
        channel_say_not_run();
    if (t)
        event_start(t);
    return status;
}

static int as_libc(long status)
{
    errno = (int)-status;
    return -1;
}

EXPORTED int execve(const char *path, char *const arguments[], char *const environment[])
{
    return as_libc(exec_at(AT_FDCWD, path, arguments, environment, 0));
}

EXPORTED int execveat(int folder, const char *path, char *const arguments[],
                      char *const environment[], int flags)
{
    return as_libc(exec_at(folder, path, arguments, environment, flags));
}

/* libc's makes the system call by itself. It is declared to get no NULL, and says what it does. */
EXPORTED int run_file(int fd, char *const arguments[],
                      char *const environment[]) __asm__("fexecve");

int run_file(int fd, char *const arguments[], char *const environment[])
{
    if (fd < 0 || !arguments || !environment)
        return real_fexecve(fd, arguments, environment);
    return as_libc(exec_at(fd, "", arguments, environment, AT_EMPTY_PATH));
}

/* --- libc's own execve --------------------------------------------------------------------------
 */

/* Code becomes other code, before there is a second thread. */
static void write_code(uint8_t *at, const uint8_t *bytes, size_t count)
{
    uint64_t start = page_start((uint64_t)at);
    uint64_t size = page_round_up((uint64_t)at + count) - start;
    const int code = PROT_READ | PROT_EXEC;
    if (raw_syscall3(SYS_mprotect, (long)start, (long)size, code | PROT_WRITE) < 0)
        return;
    memcpy(at, bytes, count);
    raw_syscall3(SYS_mprotect, (long)start, (long)size, code);
}

/*
 * The whole of libc's execve is known: the number of the call, the call, a test, a return, and
 * where errno is found. The entry stays, so that others may change that; what the jump covers is
 * the call and what follows it, where no other jump leads.
 */
static void watch_execve(void)
{
    static const uint8_t known[] = {0xb8, 0x3b, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x48, 0x3d, 0x01,
                                    0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3, 0x48, 0x8b, 0x0d};
    enum { CALL = 5, JUMP_BYTES = 14 };
    uint8_t *at = libc_own("execve");
    if (at)
        at += code_is_endbr64(at) ? ENDBR64_BYTES : 0; /* in some builds */
    if (!at || memcmp(at, known, sizeof known) != 0)
        return;
    uint8_t jump[JUMP_BYTES] = {0xff, 0x25}; /* jmp *0(%rip); the address follows */
    int (*target)(const char *, char *const[], char *const[]) = execve;
    memcpy(jump + JUMP_BYTES - sizeof target, &target, sizeof target);
    write_code(at + CALL, jump, sizeof jump);
}

void exec_prepare(void)
{
    real_fexecve = (int (*)(int, char *const[], char *const[]))dlsym(RTLD_NEXT, "fexecve");
    *(void **)&real_fork = dlsym(RTLD_NEXT, "_Fork");
}

void exec_put_back(const char *preload_variable, const char *channel_variable)
{
    exec_environment_set(preload_variable, channel_variable);
    if (channel_variable)
        watch_execve();
}
