/*
 * Row 6: every way to change a signal mask, with sampling going on behind it: sigsuspend, ppoll,
 * pselect, epoll_pwait, sigsetjmp, setcontext, the sa_mask of a handler, and a thread that inherits
 * a full mask.
 */
#include "torture.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <ucontext.h>

static sigset_t all;
static volatile sig_atomic_t handled;

static NOINLINE void in_handler(void)
{
    burn_ms(100);
}

static void on_user(int number)
{
    handled += number;
    in_handler();
}

static NOINLINE void *inherits(void *argument)
{
    burn_ms(100);
    return argument;
}

static void count(const char *when)
{
    sigset_t now;
    int blocked = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 65; i++)
        blocked += sigismember(&now, i) == 1;
    printf("%s: %d blocked, handled %d\n", when, blocked, (int)handled);
}

static NOINLINE void after_jump(void)
{
    burn_ms(100);
}

int main(void)
{
    sigset_t none, most;
    struct sigaction action = {.sa_handler = on_user};
    sigfillset(&all);
    sigemptyset(&none);
    most = all;
    sigdelset(&most, SIGUSR1);
    action.sa_mask = all;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    count("handler");

    sigprocmask(SIG_SETMASK, &all, NULL);
    raise(SIGUSR1);
    CHECK(sigsuspend(&most) == -1 && errno == EINTR);
    count("sigsuspend");
    raise(SIGUSR1);
    CHECK(ppoll(NULL, 0, NULL, &most) == -1 && errno == EINTR);
    count("ppoll");
    raise(SIGUSR1);
    CHECK(pselect(0, NULL, NULL, NULL, NULL, &most) == -1 && errno == EINTR);
    count("pselect");
    int epoll = epoll_create1(0);
    struct epoll_event event;
    raise(SIGUSR1);
    CHECK(epoll_pwait(epoll, &event, 1, -1, &most) == -1 && errno == EINTR);
    count("epoll_pwait");

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, inherits, NULL) == 0 && pthread_join(thread, NULL) == 0);
    sigjmp_buf jump;
    volatile int passes = 0;
    sigsetjmp(jump, 1);
    if (passes++ == 0) {
        sigprocmask(SIG_SETMASK, &none, NULL);
        siglongjmp(jump, 1);
    }
    count("siglongjmp");
    after_jump();
    ucontext_t context;
    volatile int contexts = 0;
    getcontext(&context);
    if (contexts++ == 0) {
        sigprocmask(SIG_SETMASK, &none, NULL);
        setcontext(&context);
    }
    count("setcontext");
    after_jump();
    return torture_end();
}
