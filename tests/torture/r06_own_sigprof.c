/*
 * Row 6: the program has its own SIGPROF handler and timer, blocks all signals in a thread, and
 * takes signals by sigwait and signalfd. Both profilers work.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;

static void on_profile(int number)
{
    ticks += number == SIGPROF;
}

static NOINLINE void with_timer(void)
{
    struct itimerval every = {{0, 10000}, {0, 10000}}, none = {0};
    struct sigaction action = {.sa_handler = on_profile, .sa_flags = SA_RESTART}, old;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    CHECK(sigaction(SIGPROF, NULL, &old) == 0 && old.sa_handler == on_profile);
    for (int i = 1; i < 65; i++) /* the mask that the program asked for is the one that it has */
        CHECK(i == SIGKILL || i == SIGSTOP || i == 32 || i == 33 ||
              sigismember(&old.sa_mask, i) == 1);
    CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
    burn_ms(300);
    CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0);
    printf("own handler: %s\n", ticks >= 5 ? "ran" : "did not run");
}

static NOINLINE void *all_blocked(void *argument)
{
    sigset_t all, now;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    burn_ms(200);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    int blocked = 0;
    for (int i = 1; i < 65; i++)
        blocked += sigismember(&now, i) == 1;
    printf("blocked: %d\n", blocked);
    return argument;
}

/* No signal but those that were sent may come out of sigwait, sigwaitinfo and a signalfd. */
static NOINLINE void *waits(void *argument)
{
    sigset_t all;
    int number = 0, fd;
    siginfo_t info;
    struct timespec none = {0};
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    burn_ms(50);
    pthread_kill(pthread_self(), SIGUSR1);
    CHECK(sigwait(&all, &number) == 0);
    printf("sigwait: %d\n", number);
    burn_ms(50);
    pthread_kill(pthread_self(), SIGUSR2);
    printf("sigwaitinfo: %d\n", sigwaitinfo(&all, &info));
    burn_ms(50);
    printf("sigtimedwait: %d\n", sigtimedwait(&all, &info, &none));
    CHECK((fd = signalfd(-1, &all, SFD_NONBLOCK)) >= 0);
    struct signalfd_siginfo read_info;
    for (int i = 0; i < 5; i++) {
        burn_ms(20);
        CHECK(read(fd, &read_info, sizeof read_info) == -1 && errno == EAGAIN);
    }
    pthread_kill(pthread_self(), SIGTERM);
    CHECK(read(fd, &read_info, sizeof read_info) == sizeof read_info);
    printf("signalfd: %u\n", read_info.ssi_signo);
    close(fd);
    sigset_t pending;
    burn_ms(20);
    sigpending(&pending);
    for (int i = 1; i < 65; i++)
        if (sigismember(&pending, i) == 1)
            printf("pending: %d\n", i);
    return argument;
}

int main(void)
{
    pthread_t thread;
    with_timer();
    CHECK(pthread_create(&thread, NULL, all_blocked, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return torture_end();
}
