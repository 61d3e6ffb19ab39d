/*
 * Row 48: signals that come at the same time, so that the handler of one is interrupted by that of
 * the other before its first instruction. Each runs where it would run otherwise, has all of that
 * stack, and has blocked what its action says; also where they end a call that waits with another
 * mask.
 */
#include "torture.h"

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/select.h>

enum { STACK_BYTES = 512 * 1024, ROUNDS = 200 };

static char *thread_start, *thread_end; /* of the stack that signals interrupt, roughly */
static char *given;                     /* the alternate stack */
static volatile int handled, depth;

static const char *place(const void *address)
{
    const char *at = address;
    if (given && at >= given && at < given + STACK_BYTES)
        return "the alternate stack";
    return at >= thread_start && at < thread_end ? "the thread's stack" : "a foreign stack";
}

/* More than the alternate stack of a profiler has. */
static NOINLINE void use_stack(void)
{
    volatile char room[200 * 1024];
    for (unsigned i = 0; i < sizeof room; i += 1024)
        room[i] = (char)i;
    spin(2000);
}

static bool says = true;

static void on_signal(int number)
{
    sigset_t mask;
    char here;
    handled++;
    depth++;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    if (says) {
        printf("  %d on %s, depth %d, blocked:", number, place(&here), depth);
        for (int i = 1; i < 64; i++)
            if (sigismember(&mask, i) == 1)
                printf(" %d", i);
        printf("\n");
    }
    use_stack();
    depth--;
}

static void install(int number, int flags, int blocked)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags}, old;
    sigaddset(&action.sa_mask, blocked);
    CHECK(sigaction(number, &action, NULL) == 0 && sigaction(number, NULL, &old) == 0);
    CHECK(sigismember(&old.sa_mask, blocked) == 1 && sigismember(&old.sa_mask, number) == 0);
    CHECK(sigismember(&old.sa_mask, SIGHUP) == 0 && (old.sa_flags & flags) == flags);
}

static void send_all(void)
{
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGALRM);
}

/* In each way to get them all at once. */
static void get_all(const char *how, sigset_t *all)
{
    static const struct timespec long_ago = {10, 0};
    sigset_t none, before;
    sigemptyset(&none);
    sigprocmask(SIG_BLOCK, all, &before);
    send_all();
    if (says)
        printf(" %s\n", how);
    if (strcmp(how, "unblocked") == 0)
        sigprocmask(SIG_SETMASK, &none, NULL);
    else if (strcmp(how, "sigsuspend") == 0)
        sigsuspend(&none);
    else if (strcmp(how, "ppoll") == 0)
        ppoll(NULL, 0, &long_ago, &none);
    else if (strcmp(how, "pselect") == 0)
        pselect(0, NULL, NULL, NULL, &long_ago, &none);
    else if (strcmp(how, "epoll_pwait") == 0)
        epoll_pwait(epoll_create1(0), &(struct epoll_event){0}, 1, 10000, &none);
    CHECK(errno == EINTR || strcmp(how, "unblocked") == 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void all_ways(const char *when)
{
    static const char *const ways[] = {"unblocked", "sigsuspend", "ppoll", "pselect",
                                       "epoll_pwait"};
    sigset_t all;
    sigemptyset(&all);
    sigaddset(&all, SIGUSR1);
    sigaddset(&all, SIGUSR2);
    sigaddset(&all, SIGALRM);
    printf("%s\n", when);
    for (int i = 0; i < 5; i++)
        get_all(ways[i], &all);
    says = false;
    for (int i = 0; i < ROUNDS; i++)
        get_all(i % 2 ? "sigsuspend" : "unblocked", &all);
    says = true;
    printf("%d handled\n", handled);
}

static void set_actions(int first, int second)
{
    install(SIGUSR1, first, SIGURG);
    install(SIGUSR2, second, SIGWINCH);
    install(SIGALRM, first | SA_NODEFER, SIGUSR1);
}

static void *in_thread(void *argument)
{
    char here;
    thread_end = &here + 4096;
    thread_start = &here - (4 << 20);
    given = NULL;
    set_actions(SA_ONSTACK, 0);
    all_ways("one kind on an alternate stack, where there is none");
    set_actions(SA_ONSTACK, SA_ONSTACK);
    all_ways("both");
    given = malloc(STACK_BYTES);
    stack_t stack = {.ss_sp = given, .ss_size = STACK_BYTES};
    sigaltstack(&stack, NULL);
    all_ways("both, where there is one");
    set_actions(0, SA_ONSTACK);
    all_ways("the other kind, where there is one");
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(given);
    given = NULL;
    all_ways("the other kind, where there is none");
    return argument;
}

int main(void)
{
    pthread_t thread;
    in_thread(NULL);
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    return torture_end();
}
