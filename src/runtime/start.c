/*
 * The beginning: before every constructor of the program and its libraries (-z initfirst), and
 * again in each child that is forked.
 */
#include "runtime/start.h"

#include "arch/x86_64/syscall.h"
#include "runtime/blocking.h"
#include "runtime/channel.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/edit/find_object.h"
#include "runtime/edit/live.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/exec.h"
#include "runtime/masks.h"
#include "runtime/modules.h"
#include "runtime/phases.h"
#include "runtime/standins.h"
#include "runtime/syscalls.h"
#include "runtime/thread.h"
#include "runtime/threads.h"
#include "runtime/waits.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void begin(void)
{
    if (is_confined() || !channel_attach())
        return;
    phases_begin();
    exec_follow(guest->flags & CHANNEL_FOLLOW);
    modules_refresh();
    thread_begin();
}

void begin_in_child(void)
{
    live_forked();
    threads_forget();
    engine_forked();
    if (!confined_look())
        begin(); /* the page is empty now: this is another process */
}

/* Takes a variable out of the environment: the program sees what it would see without us. */
static char *take_variable(char **environment, const char *name)
{
    size_t length = strlen(name);
    for (char **at = environment; *at; at++) {
        if (strncmp(*at, name, length) != 0 || (*at)[length] != '=')
            continue;
        char *variable = *at;
        for (char **move = at; *move; move++)
            move[0] = move[1];
        return variable;
    }
    return NULL;
}

/*
 * Our library is the first in LD_PRELOAD. What the user had there stays, in its place; the variable
 * as it is to be put back for children ends where the user's part begins.
 */
static char *take_preload(char **environment)
{
    for (char **at = environment; *at; at++) {
        if (strncmp(*at, "LD_PRELOAD=", 11) != 0 || !(*at)[11]) /* an empty one is the program's */
            continue;
        char *variable = *at, *rest = strchr(variable, ':');
        if (!rest) {
            for (char **move = at; *move; move++)
                move[0] = move[1];
            return variable;
        }
        /* "LD_PRELOAD=ours:theirs": ours keeps its text, theirs needs a name in front. */
        static char ours[4096];
        size_t length = (size_t)(rest - variable);
        if (length >= sizeof ours)
            return NULL;
        memcpy(ours, variable, length);
        *at = rest + 1 - 11; /* the library's path is longer than the name of the variable */
        memcpy(*at, "LD_PRELOAD=", 11);
        return ours;
    }
    return NULL;
}

/*
 * CPU time and what was missed, for the report; as exact as the kernel is, where the process ends
 * in an orderly way.
 */
void say_cpu_time(void)
{
    struct rusage usage;
    const struct thread *t = thread_self();
    if (!guest->arena) /* also in a child that no handler of forks has seen: t is its parent's */
        return;
    if (t && t->of == guest && t->record)
        event_count_fired(t);
    if (is_confined() || raw_syscall3(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0) < 0)
        return;
    guest->arena->utime_ns =
        (uint64_t)usage.ru_utime.tv_sec * 1000000000 + (uint64_t)usage.ru_utime.tv_usec * 1000;
    guest->arena->stime_ns =
        (uint64_t)usage.ru_stime.tv_sec * 1000000000 + (uint64_t)usage.ru_stime.tv_usec * 1000;
    guest->arena->said_ns = clock_ns(CLOCK_MONOTONIC);
}

/* Between these the linker puts the list; without any stand-in there is none. */
extern const struct standin first_standin[] __asm__("__start_standins")
    __attribute__((weak, visibility("hidden")));
extern const struct standin end_of_standins[] __asm__("__stop_standins")
    __attribute__((weak, visibility("hidden")));

void standins_prepare(void)
{
    // cppcheck-suppress comparePointers
    for (const struct standin *s = first_standin; s < end_of_standins; s++)
        if (!*s->real)
            *s->real = dlsym(RTLD_NEXT, s->name);
    dlerror(); /* what this libc or program does not have is no error of the program's */
}

static __attribute__((destructor)) void at_exit(void)
{
    ENGINE_CALL(process_ends);
    say_cpu_time();
}

static __attribute__((constructor)) void start(int argc, char **argv, char **environment)
{
    (void)argc;
    exec_prepare();
    syscalls_prepare();
    waits_prepare();
    blocking_prepare();
    standins_prepare();
    find_object_prepare();
    char *address = take_variable(environment, CHANNEL_VARIABLE);
    if (!address)
        return;
    char *preload = take_preload(environment);
    exec_put_back(preload, preload ? address : NULL);
    confined_expect(channel_filters(strchr(address, '=') + 1));
    if (confined_look() || !channel_set_address(strchr(address, '=') + 1) || !guest_begin())
        return;
    threads_prepare();
    /* _start has its arguments from the stack, and pushes two words and the return address. */
    thread_note_stack((uint64_t)argv - 4 * sizeof(uint64_t));
    masks_begin();
    masks_install_handler(true);
    modules_watch();
    pthread_atfork(NULL, NULL, begin_in_child);
    begin();
}
