/*
 * Threads that are not made by pthread_create, as far as programs can tell: those of C11, and those
 * in which libc calls a function when something has happened (SIGEV_THREAD). libc makes both inside
 * itself, so that they are met in the first function of the program that they run.
 */
#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/masks.h"
#include "runtime/standins.h"
#include "runtime/thread.h"
#include "runtime/threads.h"
#include "runtime/threads_ended.h"

#include <errno.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <threads.h>
#include <time.h>

/* --- C11 ----------------------------------------------------------------------------------------
 */

/* Ends in a jump to the program's function, as begin_thread does. */
static int begin_c_thread(void *argument)
{
    struct thread *t = argument;
    thrd_start_t start = (thrd_start_t)(void *)t->start;
    void *start_argument = t->argument;
    thread_note_stack((uint64_t)__builtin_frame_address(0) + 8); /* its return address */
    thread_become(t);
    return start(start_argument);
}

STANDS_IN_FOR(int, thrd_create, (thrd_t *, thrd_start_t, void *))
EXPORTED int thrd_create(thrd_t *made, thrd_start_t start, void *argument)
{
    struct thread *t = thread_for_new((const void *)(void *)start);
    if (!t)
        return REAL(thrd_create)(made, start, argument);
    t->start = (void *(*)(void *))(void *)start;
    t->argument = argument;
    int status = REAL(thrd_create)(made, begin_c_thread, t);
    if (status != thrd_success)
        thread_keep(t);
    return status;
}

/* --- keys ----------------------------------------------------------------------------------------
 */

STANDS_IN_FOR(int, pthread_key_create, (pthread_key_t *, void (*)(void *)))
EXPORTED int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
    int status = REAL(pthread_key_create)(key, destructor);
    return status == EAGAIN && threads_give_key() ? real_pthread_key_create(key, destructor)
                                                  : status;
}

STANDS_IN_FOR(int, tss_create, (tss_t *, tss_dtor_t))
EXPORTED int tss_create(tss_t *key, tss_dtor_t destructor)
{
    int status = REAL(tss_create)(key, destructor);
    return status != thrd_success && threads_give_key() ? real_tss_create(key, destructor) : status;
}

/* --- notifications ------------------------------------------------------------------------------
 */

/*
 * What the program wants to be called, and with what. These stay: it is not known when the last
 * call has been made. The same wish has the same place.
 */
struct wish {
    void (*function)(union sigval);
    union sigval value;
};

enum { MOST_WISHES = 4096 };

static struct wish wishes[MOST_WISHES];
static uint32_t wish_count;

static const struct wish *keep_wish(struct wish wanted)
{
    const struct wish *kept = NULL;
    while (__atomic_exchange_n((uint32_t *)&guest->wish_lock, 1, __ATOMIC_ACQUIRE))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    for (uint32_t i = 0; i < wish_count && !kept; i++)
        if (wishes[i].function == wanted.function &&
            wishes[i].value.sival_ptr == wanted.value.sival_ptr)
            kept = &wishes[i];
    if (!kept && wish_count < MOST_WISHES) {
        wishes[wish_count] = wanted;
        kept = &wishes[wish_count++];
    }
    __atomic_store_n((uint32_t *)&guest->wish_lock, 0, __ATOMIC_RELEASE);
    return kept;
}

/* A thread of libc's that is about to call the program; it may have done so before. */
static void begin_notification(union sigval value)
{
    const struct wish *wish = value.sival_ptr;
    void (*function)(union sigval) = wish->function;
    union sigval wanted = wish->value;
    if (guest->arena && !thread_self()) {
        thread_note_stack((uint64_t)__builtin_frame_address(0) + 8);
        masks_thread_begins();
        thread_begin();
    }
    function(wanted);
}

/* The event as it is to be passed on: the program's own, or a copy that comes here first. */
static struct sigevent *pass_on(const struct sigevent *event, struct sigevent *copy)
{
    const struct wish *wish = NULL;
    if (guest->arena && !is_confined() && event && event->sigev_notify == SIGEV_THREAD) {
        wish = keep_wish((struct wish){event->sigev_notify_function, event->sigev_value});
        if (!wish)
            __atomic_fetch_add((uint32_t *)&guest->arena->threads_not_sampled, 1, __ATOMIC_RELAXED);
    }
    if (!wish)
        return (struct sigevent *)event;
    *copy = *event;
    copy->sigev_notify_function = begin_notification;
    copy->sigev_value.sival_ptr = (void *)wish;
    return copy;
}

STANDS_IN_FOR(int, timer_create, (clockid_t, struct sigevent *restrict, timer_t *restrict))
EXPORTED int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer)
{
    struct sigevent copy;
    return REAL(timer_create)(clock, pass_on(event, &copy), timer);
}

STANDS_IN_FOR(int, mq_notify, (mqd_t, const struct sigevent *))
EXPORTED int mq_notify(mqd_t queue, const struct sigevent *event)
{
    struct sigevent copy;
    return REAL(mq_notify)(queue, pass_on(event, &copy));
}

STANDS_IN_FOR(int, getaddrinfo_a, (int, struct gaicb **, int, struct sigevent *))
EXPORTED int getaddrinfo_a(int mode, struct gaicb **list, int count, struct sigevent *event)
{
    struct sigevent copy;
    return REAL(getaddrinfo_a)(mode, list, count, pass_on(event, &copy));
}
