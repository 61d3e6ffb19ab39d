/*
 * Row 49: what libc promises of functions that others stand in for: cancellation points, errors,
 * and updates by several threads. The argument says which.
 */
#include "torture.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <threads.h>

static NOINLINE void burn_a_little(void)
{
    burn_ms(100);
}

/* --- cancellation points ------------------------------------------------------------------------
 */

static sem_t available;
static const struct timespec far = {.tv_sec = INT32_MAX};

static void *wait_plain(void *argument)
{
    pthread_cancel(pthread_self());
    sem_wait(&available);
    return argument;
}

static void *wait_timed(void *argument)
{
    pthread_cancel(pthread_self());
    sem_timedwait(&available, &far);
    return argument;
}

static void *wait_clock(void *argument)
{
    pthread_cancel(pthread_self());
    sem_clockwait(&available, CLOCK_MONOTONIC, &far);
    return argument;
}

static void *lock_mutex(void *argument) /* is none */
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cancel(pthread_self());
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return argument;
}

static void cancellation(void)
{
    static const struct {
        const char *name;
        void *(*run)(void *);
    } all[] = {{"sem_wait", wait_plain},
               {"sem_timedwait", wait_timed},
               {"sem_clockwait", wait_clock},
               {"pthread_mutex_lock", lock_mutex}};
    sem_init(&available, 0, 100);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        pthread_t thread;
        void *result = NULL;
        int left;
        pthread_create(&thread, NULL, all[i].run, NULL);
        pthread_join(thread, &result);
        sem_getvalue(&available, &left);
        printf("%s: %s, %d left\n", all[i].name,
               result == PTHREAD_CANCELED ? "cancelled" : "went on", left);
    }
    burn_a_little();
}

/* --- errors -------------------------------------------------------------------------------------
 */

#define SAYS(call)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        int status_ = call;                                                                        \
        printf("%s: %d %d\n", #call, status_, errno);                                              \
    } while (0)

static void errors(void)
{
    static const struct timespec bad = {.tv_nsec = 1000000000}, past = {.tv_sec = 1};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, checked;
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_mutexattr_t attributes;
    sem_t one;
    sem_init(&one, 0, 1);
    SAYS(sem_timedwait(&one, &bad));
    SAYS(sem_clockwait(&one, CLOCK_PROCESS_CPUTIME_ID, &far));
    SAYS(sem_timedwait(&one, &past));
    SAYS(sem_timedwait(&one, &past));
    SAYS(sem_trywait(&one));
    SAYS(pthread_rwlock_timedrdlock(&lock, &bad));
    SAYS(pthread_rwlock_timedwrlock(&lock, &bad));
    SAYS(pthread_rwlock_timedwrlock(&lock, &past));
    SAYS(pthread_rwlock_timedrdlock(&lock, &past));
    SAYS(pthread_rwlock_rdlock(&lock));
    SAYS(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &far));
    SAYS(pthread_mutex_timedlock(&mutex, &bad));
    SAYS(pthread_mutex_timedlock(&mutex, &bad));
    SAYS(pthread_mutex_timedlock(&mutex, &past));
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &attributes);
    SAYS(pthread_mutex_lock(&checked));
    SAYS(pthread_mutex_lock(&checked));
    static const struct timespec none;
    const sigset_t *nowhere = (const sigset_t *)8;
    SAYS(ppoll(NULL, 0, &none, nowhere));
    SAYS(pselect(0, NULL, NULL, NULL, &none, nowhere));
    SAYS(sigsuspend(nowhere));
    burn_a_little();
}

/* --- actions of signals -------------------------------------------------------------------------
 */

static atomic_bool is_over;

static void one(int number)
{
    (void)number;
}

static void two(int number)
{
    (void)number;
}

static void *small_stacks(void *argument)
{
    static char memory[8192];
    stack_t small = {.ss_sp = memory, .ss_size = sizeof memory}, none = {.ss_flags = SS_DISABLE};
    while (!is_over) {
        CHECK(sigaltstack(&small, NULL) == 0);
        CHECK(sigaltstack(&none, NULL) == 0);
    }
    return argument;
}

static void *older_way(void *argument)
{
    int lost = 0;
    for (int i = 0; i < 200000; i++) {
        struct sigaction got;
        signal(SIGUSR2, i % 2 ? one : two);
        sigaction(SIGUSR2, NULL, &got);
        lost += got.sa_handler != (i % 2 ? one : two);
    }
    printf("lost by signal: %d\n", lost);
    return argument;
}

static void actions(void)
{
    pthread_t threads[2];
    int lost = 0;
    pthread_create(&threads[0], NULL, small_stacks, NULL);
    for (int i = 0; i < 100000; i++) {
        struct sigaction wanted = {.sa_handler = i % 2 ? one : two, .sa_flags = SA_ONSTACK}, got;
        sigaction(SIGUSR1, &wanted, NULL);
        sigaction(SIGUSR1, NULL, &got);
        lost += got.sa_handler != wanted.sa_handler;
    }
    printf("lost: %d\n", lost);
    pthread_create(&threads[1], NULL, older_way, NULL);
    pthread_join(threads[1], NULL);
    is_over = true;
    pthread_join(threads[0], NULL);
    /* A child of vfork has its own actions, in its parent's memory. */
    struct sigaction with_mask = {.sa_handler = one}, got;
    sigfillset(&with_mask.sa_mask);
    sigaction(SIGTERM, &with_mask, NULL);
    pid_t pid = vfork();
    if (pid == 0) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(SIGTERM, &none, NULL);
        sigaction(SIGSTKFLT, &none, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    sigaction(SIGTERM, NULL, &got);
    printf("mask: %d\n", memcmp(&got.sa_mask, &with_mask.sa_mask, 8) == 0);
    sigset(SIGUSR1, SIG_HOLD);
    printf("held: %d\n", sigset(SIGUSR1, one) == SIG_HOLD);
    burn_a_little();
}

/* --- descriptors --------------------------------------------------------------------------------
 */

static pthread_barrier_t all_there;

static void *stays(void *argument)
{
    pthread_barrier_wait(&all_there);
    burn_ms(2);
    pthread_barrier_wait(&all_there);
    return argument;
}

/* So many threads that nothing more may be locked in memory for them, nor a descriptor be had. */
static void descriptors(void)
{
    enum { THREADS = 300 };
    pthread_t threads[THREADS];
    struct rlimit none = {0}, few = {256, 256};
    int used = 0;
    setrlimit(RLIMIT_MEMLOCK, &none);
    setrlimit(RLIMIT_NOFILE, &few);
    CHECK(setuid(65534) == 0);
    pthread_barrier_init(&all_there, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, stays, NULL) == 0);
    pthread_barrier_wait(&all_there);
    /* Some may be there for a moment: what counts is those that stay. */
    for (int scan = 0; scan < 500; scan++) {
        int seen = 0;
        for (int fd = 0; fd < 256; fd++)
            seen += fcntl(fd, F_GETFD) >= 0;
        used = scan == 0 || seen < used ? seen : used;
    }
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("descriptors: %d\n", used);
    burn_a_little();
}

/* --- keys ---------------------------------------------------------------------------------------
 */

enum { MOST_KEYS = 2000 };

static pthread_key_t keys[MOST_KEYS];
static int key_count;
static atomic_int destroyed;

static void destroy(void *value)
{
    destroyed += (int)(intptr_t)value;
}

static void *uses_keys(void *argument)
{
    for (int i = 0; i < key_count; i++)
        CHECK(pthread_setspecific(keys[i], (void *)1) == 0);
    burn_ms(10);
    return argument;
}

static void all_keys(void)
{
    pthread_t thread;
    while (key_count < MOST_KEYS && pthread_key_create(&keys[key_count], destroy) == 0)
        key_count++;
    printf("keys: %d\n", key_count);
    tss_t one_more;
    printf("one more: %d\n", tss_create(&one_more, destroy) == thrd_success);
    for (int i = 0; i < 20; i++) {
        pthread_create(&thread, NULL, uses_keys, NULL);
        pthread_join(thread, NULL);
    }
    printf("destroyed: %d\n", destroyed);
    burn_a_little();
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    if (strcmp(way, "cancellation") == 0)
        cancellation();
    else if (strcmp(way, "errors") == 0)
        errors();
    else if (strcmp(way, "actions") == 0)
        actions();
    else if (strcmp(way, "keys") == 0)
        all_keys();
    else if (strcmp(way, "descriptors") == 0)
        descriptors();
    return torture_end();
}
