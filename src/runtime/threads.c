/*
 * Threads are known from their first instruction in the program's code to the end of their
 * clean-up. A structure is taken in the creating thread, so that the new one has nothing to
 * allocate, and is used again when the thread has ended.
 */
#include "runtime/threads.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/blocking.h"
#include "runtime/charge.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/own_stack.h"
#include "runtime/thread.h"
#include "runtime/threads_ended.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

/* Where the calling thread's stack begins, as far as is known; a fork leaves it as it is. */
static __thread uint64_t stack_top __attribute__((tls_model("initial-exec")));

void thread_note_stack(uint64_t address)
{
    stack_top = address;
}

static pthread_key_t end_key;
static _Atomic bool has_end_key;
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

/*
 * The ends of threads are seen by a key with a destructor. There are 1,024 keys, and they are the
 * program's: when it wants the last one, it gets ours. From then on threads that have ended are
 * looked for when another one begins.
 */
bool threads_give_key(void)
{
    return __atomic_exchange_n((bool *)&has_end_key, false, __ATOMIC_ACQ_REL) &&
           pthread_key_delete(end_key) == 0;
}

static void look_for_ended(void)
{
    struct thread *t = has_end_key || is_confined() ? NULL : threads_lock();
    if (!t)
        return;
    long pid = raw_syscall3(SYS_getpid, 0, 0, 0);
    for (struct thread **at = &guest->threads; (t = *at);) {
        if (raw_syscall3(SYS_tgkill, pid, t->tid, 0) != -ESRCH) {
            at = &t->next;
            continue;
        }
        *at = t->next; /* what the engine has of it stays: the thread itself would have to end it */
        event_stop(t);
        t->record->end_ns = clock_ns(CLOCK_MONOTONIC);
        t->record->paused_ns = arena_paused_ns(guest->arena, t->record->end_ns);
    }
    threads_unlock();
}

static struct thread *take_for(const void *start)
{
    look_for_ended();
    return thread_take_for(start);
}

/*
 * A program may start threads faster than the supervisor gets to make room: a thread that finds
 * none waits for a moment before it begins. When that was in vain once, there is none to be had in
 * this process.
 */
static struct arena_thread *take_record(void)
{
    enum { MOST_WAITS = 100 };
    static const struct timespec a_moment = {.tv_nsec = 2000000};
    struct arena_thread *record = arena_take(sizeof *record);
    for (unsigned i = 0; !record && i < MOST_WAITS && !guest->no_room_for_threads; i++) {
        raw_syscall3(SYS_nanosleep, (long)&a_moment, 0, 0);
        record = arena_take(sizeof *record);
    }
    guest->no_room_for_threads |= !record;
    return record;
}

static bool begin_record(struct thread *t)
{
    t->record = take_record();
    if (!t->record) { /* the tree is made when the first sample comes */
        arena_count_loss(LOST_NO_ROOM);
        return false;
    }
    t->record->tid = t->tid;
    t->record->lives = 1;
    t->record->start_ns = clock_ns(CLOCK_MONOTONIC);
    t->record->paused_before_ns = arena_paused_ns(guest->arena, t->record->start_ns);
    return true;
}

/* The calling thread becomes the one that `t` describes. */
static bool adopt(struct thread *t)
{
    if (is_confined()) {
        guest->arena->threads_not_sampled++;
        return false;
    }
    t->tid = (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
    t->first_sp = stack_top ? stack_top : (uint64_t)__builtin_frame_address(0);
    t->timer = -1;
    t->of = guest;
    bool goes_on = t->record;
    if (goes_on)
        thread_goes_on(t);
    else if (!begin_record(t))
        return false;
    thread_read_name(t);
    threads_lock();
    t->next = guest->threads;
    guest->threads = t;
    if (!goes_on) {
        t->record->next = guest->arena->first_thread;
        guest->arena->first_thread = arena_place(t->record);
    }
    threads_unlock();
    charge_thread_begins(t);
    thread_current = t;
    ENGINE_CALL(thread_begins, t);
    return event_start(t);
}

static void note_end(struct thread *t)
{
    if (has_end_key)
        pthread_setspecific(end_key, t);
}

struct thread *thread_begin(void)
{
    if (thread_current && thread_current->of == guest && thread_current->record)
        return thread_current;
    struct thread *t = guest->arena && !is_confined() ? take_for(NULL) : NULL;
    if (!t || !adopt(t))
        return NULL;
    note_end(t);
    return t;
}

void thread_end(void)
{
    struct thread *t = thread_current;
    if (!t || t->of != guest || !guest->arena)
        return;
    wait_was_left(t); /* a call that it was waiting in when it was cancelled */
    charge_thread_ends(t);
    if (!is_confined()) {
        event_stop(t);
        thread_read_name(t);
        t->record->end_ns = clock_ns(CLOCK_MONOTONIC);
        t->record->paused_ns = arena_paused_ns(guest->arena, t->record->end_ns);
    }
    own_stack_end(t);
    t->will_go_on = thread_will_go_on(t);
    if (t->record->lives > 1 && memcmp(t->name_before, t->record->name, ARENA_NAME_BYTES) != 0)
        t->record->has_other_names = 1;
    ENGINE_CALL(thread_ends, t);
    thread_current = NULL;
    threads_lock();
    for (struct thread **at = &guest->threads; *at; at = &(*at)->next) {
        if (*at == t) {
            *at = t->next;
            break;
        }
    }
    threads_unlock();
    if (!t->will_go_on)
        t->record = NULL;
    thread_keep(t);
}

static void at_thread_end(void *argument)
{
    (void)argument;
    thread_end();
}

void thread_become(struct thread *t)
{
    if (guest->arena && adopt(t))
        note_end(t);
}

struct thread *thread_for_new(const void *start)
{
    if (!guest->arena)
        return NULL;
    if (!is_confined())
        return take_for(start);
    guest->arena->threads_not_sampled++;
    return NULL;
}

/* Ends in a jump to the program's function, so that no frame of ours stays on the stack. */
static void *begin_thread(void *argument)
{
    struct thread *t = argument;
    void *(*start)(void *) = t->start;
    void *start_argument = t->argument;
    thread_note_stack((uint64_t)__builtin_frame_address(0) + 8); /* its return address */
    thread_become(t);
    return start(start_argument);
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *made,
                                                          const pthread_attr_t *attributes,
                                                          void *(*start)(void *), void *argument)
{
    if (!real_pthread_create)
        real_pthread_create = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
                                       void *))dlsym(RTLD_NEXT, "pthread_create");
    struct thread *t = thread_for_new((const void *)start);
    if (!t)
        return real_pthread_create(made, attributes, start, argument);
    t->start = start;
    t->argument = argument;
    memset(t->origin, 0, sizeof t->origin);
    ENGINE_CALL(thread_made, t);
    int status = real_pthread_create(made, attributes, begin_thread, t);
    if (status)
        thread_keep(t);
    return status;
}

/* A thread that outlives main never says goodbye: its name is noted when it gets it. */
__attribute__((visibility("default"))) int pthread_setname_np(pthread_t thread, const char *name)
{
    static int (*real)(pthread_t, const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_setname_np");
    int status = real(thread, name);
    if (!status && guest->arena && !is_confined() && thread_current && thread_current->record &&
        thread == pthread_self())
        thread_read_name(thread_current);
    return status;
}

void threads_forget(void)
{
    own_stack_forget();
    thread_current = NULL; /* what it points to is the parent's */
    threads_ended_forget();
}

void threads_prepare(void)
{
    has_end_key = pthread_key_create(&end_key, at_thread_end) == 0;
}
