/*
 * Row 39: all signals blocked for long, by raw system calls, with RLIMIT_SIGPENDING at 0: a
 * sampling signal that queues would be turned into SIGIO, and end the program. Afterwards the mask
 * is what it was, and a signal of the program's own was delivered once.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static volatile int got;

static void on_user(int number)
{
    got += number == SIGUSR1;
}

static NOINLINE void blocked(void)
{
    burn_ms(300);
}

static void *thread(void *argument)
{
    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    blocked();
    return argument;
}

int main(void)
{
    struct rlimit none = {0, 0};
    uint64_t all = ~UINT64_C(0), before = 0, now = 0;
    signal(SIGUSR1, on_user);
    CHECK(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8) == 0);
    raise(SIGUSR1);
    blocked();
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, &now, 8) == 0);
    printf("blocked before: %d signals, got %d\n", __builtin_popcountll(before), got);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, NULL) == 0);
    burn_ms(50);
    return torture_end();
}
