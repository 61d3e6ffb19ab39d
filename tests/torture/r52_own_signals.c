/*
 * Row 52: a program that uses the very signals that a profiler may have taken: SIGSTKFLT,
 * SIGVTALRM, SIGPROF and SIGURG, in all the ways in which signals are used.
 */
#include "torture.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t count, code, value, deepest, depth, on_stack;
static char *thread_stack;
static int number, may_nest;

static NOINLINE void in_between(void)
{
    burn_ms(20);
}

static void on_signal(int got, siginfo_t *info, void *context)
{
    char here;
    CHECK(got == number && info->si_signo == number);
    code = info->si_code;
    value = info->si_value.sival_int;
    on_stack = llabs(thread_stack - &here) < 256 * 1024;
    depth++;
    deepest = depth > deepest ? depth : deepest;
    if (++count == 1 && may_nest)
        raise(number);
    in_between();
    depth--;
}

static void on_plain(int got)
{
    count++;
}

static void install(int flags)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags}, old;
    CHECK(sigaction(number, &action, NULL) == 0);
    CHECK(sigaction(number, NULL, &old) == 0 && old.sa_sigaction == on_signal);
    count = deepest = depth = 0;
    may_nest = (flags & SA_NODEFER) != 0;
}

static void sent(void)
{
    install(SA_RESTART);
    raise(number);
    printf("raise: %d, on the stack %d\n", (int)count, on_stack);
    kill(getpid(), number);
    printf("kill: %d, code %d\n", (int)count, (int)code);
    sigqueue(getpid(), number, (union sigval){.sival_int = 77});
    printf("sigqueue: %d, code %d, value %d\n", (int)count, (int)code, (int)value);
    pthread_kill(pthread_self(), number);
    printf("pthread_kill: %d, code %d\n", (int)count, (int)code);
    install(SA_NODEFER);
    raise(number);
    printf("nested: %d, deep %d\n", (int)count, (int)deepest);
}

static void blocked(void)
{
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, number);
    install(SA_RESTART);
    count = 10;
    sigprocmask(SIG_BLOCK, &one, &before);
    raise(number);
    in_between();
    printf("blocked: %d", (int)count);
    fflush(stdout);
    sigprocmask(SIG_SETMASK, &before, NULL);
    printf(", then %d\n", (int)count);
}

static void *interrupts(void *main_thread)
{
    while (count < 100) {
        pthread_kill(*(pthread_t *)main_thread, number);
        usleep(5000); /* a signal that comes before the call does not end it: another will */
    }
    return NULL;
}

/* Without SA_RESTART a call that waits ends. */
static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_plain};
    pthread_t thread, self = pthread_self();
    int pipes[2];
    char byte;
    CHECK(pipe(pipes) == 0 && sigaction(number, &action, NULL) == 0);
    count = 0;
    pthread_create(&thread, NULL, interrupts, &self);
    ssize_t got = read(pipes[0], &byte, 1);
    printf("read: %zd, %s\n", got, strerror(errno));
    count = 100;
    pthread_join(thread, NULL);
    close(pipes[0]);
    close(pipes[1]);
}

static void other_ways(void)
{
    struct sigaction old;
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action;
    CHECK(signal(number, SIG_IGN) == on_plain);
    raise(number);
    CHECK(signal(number, on_plain) == SIG_IGN);
    count = 0;
    raise(number);
    printf("signal: %d\n", (int)count);
    CHECK(syscall(SYS_rt_sigaction, number, NULL, &action, 8) == 0 && action.handler == on_plain);
    install(SA_RESETHAND);
    count = 5;
    raise(number);
    CHECK(sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    printf("once: %d\n", (int)count);
}

static void ends(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        signal(number, SIG_DFL);
        in_between();
        raise(number);
        _exit(5);
    }
    CHECK(waitpid(child, &status, 0) == child);
    printf("by default: %#x\n", status);
}

static void timed(int which)
{
    struct itimerval soon = {{0, 2000}, {0, 2000}}, none = {0};
    struct sigaction action = {.sa_handler = on_plain, .sa_flags = SA_RESTART};
    sigaction(number, &action, NULL);
    count = 0;
    setitimer(which, &soon, NULL);
    while (count < 10)
        spin(20000);
    setitimer(which, &none, NULL);
    signal(number, SIG_IGN);
    printf("timer\n");
}

int main(void)
{
    static const int numbers[] = {SIGSTKFLT, SIGVTALRM, SIGPROF, SIGURG};
    char here;
    thread_stack = &here;
    in_between();
    for (int i = 0; i < 4; i++) {
        number = numbers[i];
        printf("%d\n", number);
        sent();
        blocked();
        interrupted();
        other_ways();
        ends();
        if (number == SIGVTALRM || number == SIGPROF)
            timed(number == SIGVTALRM ? ITIMER_VIRTUAL : ITIMER_PROF);
        in_between();
    }
    return torture_end();
}
