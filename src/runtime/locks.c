/*
 * Stand-ins for what waits for other threads. A lock that is free is taken by trying, which costs
 * what locking does; only one that is not is a wait, with a context and a time. Conditions and
 * joins always are.
 */
#include "runtime/blocking.h"
#include "runtime/standins.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

enum { LOCKS = EVENT_WALL | EVENT_LOCK };

/* As wait_end, and for -e lock. */
static void lock_end(struct wait *w)
{
    struct thread *t = thread_self();
    uint32_t node = w->node;
    if (!node || !t)
        return;
    uint64_t before_ns = t->accounted_ns;
    wait_end(w);
    charge_add(node, VALUE_LOCK_NS, t->accounted_ns - before_ns);
    charge_add(node, VALUE_LOCK_TIMES, 1);
}

#define WAITS_FOR_THREAD(name, parameters, arguments)                                              \
    STANDS_IN_FOR(int, name, parameters)                                                           \
    EXPORTED int name parameters                                                                   \
    {                                                                                              \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), LOCKS);                                           \
        int result = real_##name arguments;                                                        \
        lock_end(&w);                                                                              \
        return result;                                                                             \
    }

/* libc refuses a time or a clock that is none before it looks at the lock. */
static bool is_time(const struct timespec *t)
{
    return t->tv_nsec >= 0 && t->tv_nsec < 1000000000;
}

static bool is_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

/* What trying says when the lock is not free; everything else is as good as locking's own word,
 * where `may_try` says that it would get so far. */
#define LOCKS_BY_TRYING(name, parameters, arguments, may_try, attempt)                             \
    STANDS_IN_FOR(int, name, parameters)                                                           \
    EXPORTED int name parameters                                                                   \
    {                                                                                              \
        if (!charge_wanted(LOCKS) || !(may_try))                                                   \
            return REAL(name) arguments;                                                           \
        int tried = attempt;                                                                       \
        if (tried != EBUSY)                                                                        \
            return tried;                                                                          \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), LOCKS);                                           \
        int result = real_##name arguments;                                                        \
        lock_end(&w);                                                                              \
        return result;                                                                             \
    }

LOCKS_BY_TRYING(pthread_mutex_lock, (pthread_mutex_t * m), (m), true, pthread_mutex_trylock(m))
LOCKS_BY_TRYING(pthread_mutex_timedlock,
                (pthread_mutex_t *restrict m, const struct timespec *restrict t), (m, t), true,
                pthread_mutex_trylock(m)) /* the time of a free one is not looked at */
LOCKS_BY_TRYING(pthread_mutex_clocklock,
                (pthread_mutex_t *restrict m, clockid_t c, const struct timespec *restrict t),
                (m, c, t), is_clock(c), pthread_mutex_trylock(m))
LOCKS_BY_TRYING(pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l), true,
                pthread_rwlock_tryrdlock(l))
LOCKS_BY_TRYING(pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l), true,
                pthread_rwlock_trywrlock(l))
LOCKS_BY_TRYING(pthread_rwlock_timedrdlock,
                (pthread_rwlock_t *restrict l, const struct timespec *restrict t), (l, t),
                is_time(t), pthread_rwlock_tryrdlock(l))
LOCKS_BY_TRYING(pthread_rwlock_timedwrlock,
                (pthread_rwlock_t *restrict l, const struct timespec *restrict t), (l, t),
                is_time(t), pthread_rwlock_trywrlock(l))

WAITS_FOR_THREAD(pthread_cond_wait, (pthread_cond_t *restrict c, pthread_mutex_t *restrict m),
                 (c, m))
WAITS_FOR_THREAD(pthread_cond_timedwait,
                 (pthread_cond_t *restrict c, pthread_mutex_t *restrict m,
                  const struct timespec *restrict t),
                 (c, m, t))
WAITS_FOR_THREAD(pthread_cond_clockwait,
                 (pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t k,
                  const struct timespec *restrict t),
                 (c, m, k, t))
WAITS_FOR_THREAD(pthread_barrier_wait, (pthread_barrier_t * b), (b))
WAITS_FOR_THREAD(pthread_join, (pthread_t other, void **result_), (other, result_))

/* Unlike locks, to wait for one of these is a cancellation point, whether it is free or not; in
 * libc's sem_clockwait only where it is not. */
static bool acts_on_cancellation(void)
{
    pthread_testcancel();
    return true;
}

/* Semaphores say -1 and EAGAIN; the caller's errno stays when the attempt fails. */
static bool take_at_once(sem_t *s)
{
    int before = errno;
    if (sem_trywait(s) == 0)
        return true;
    errno = before;
    return false;
}

#define SEMAPHORE(name, parameters, arguments, may_try)                                            \
    STANDS_IN_FOR(int, name, parameters)                                                           \
    EXPORTED int name parameters                                                                   \
    {                                                                                              \
        if (!charge_wanted(LOCKS) || !(may_try))                                                   \
            return REAL(name) arguments;                                                           \
        if (take_at_once(s))                                                                       \
            return 0;                                                                              \
        struct wait w;                                                                             \
        wait_begin(&w, (const void *)REAL(name), LOCKS);                                           \
        int result = real_##name arguments;                                                        \
        lock_end(&w);                                                                              \
        return result;                                                                             \
    }

SEMAPHORE(sem_wait, (sem_t * s), (s), acts_on_cancellation())
SEMAPHORE(sem_timedwait, (sem_t *restrict s, const struct timespec *restrict t), (s, t),
          is_time(t) && acts_on_cancellation())
SEMAPHORE(sem_clockwait, (sem_t *restrict s, clockid_t c, const struct timespec *restrict t),
          (s, c, t), is_clock(c) && is_time(t))
