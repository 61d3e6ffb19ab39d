/*
 * Row 48: what a program sees of alternate stacks is what it has said of them. Handlers with
 * SA_ONSTACK run on the stack of their thread where that has none of its own, on its own where it
 * has one, nested and left by a jump; what they change in the context counts.
 */
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

enum { STACK_BYTES = 32 * 1024, LONG_MS = 40 };

static __thread char *thread_start, *thread_end; /* of its own stack, roughly */
static __thread char *given;                     /* its alternate stack */
static __thread const char *where;
static sigjmp_buf back;

static const char *place(const void *address)
{
    const char *at = address;
    if (given && at >= given && at < given + STACK_BYTES)
        return "its alternate stack";
    return at >= thread_start && at < thread_end ? "the thread's stack" : "a foreign stack";
}

static NOINLINE void in_handler(void)
{
    burn_ms(LONG_MS);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    char here;
    where = place(&here);
    CHECK(place(info) == where && place(context) == where && info->si_signo == number);
    in_handler();
    if (number == SIGUSR2)
        raise(SIGUSR1);
    if (number == SIGALRM)
        siglongjmp(back, 1);
}

static void on_plain(int number)
{
    char here;
    where = place(&here);
}

static void note_stack(void)
{
    char here;
    thread_end = &here + 4096;
    thread_start = &here - 48 * 1024;
}

static void said(const char *when)
{
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    CHECK(now.ss_sp == given && now.ss_size == (given ? STACK_BYTES : 0));
    printf("%s: flags %d\n", when, now.ss_flags);
    CHECK(syscall(SYS_sigaltstack, NULL, &now) == 0 && now.ss_sp == given);
}

static void all_signals(const char *when)
{
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGURG};
    for (int i = 0; i < 4; i++) {
        where = "nowhere";
        if (sigsetjmp(back, 1) == 0)
            raise(numbers[i]);
        printf("%s: %d on %s\n", when, numbers[i], where);
    }
}

static void give_stack(unsigned flags)
{
    given = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {.ss_sp = given, .ss_size = STACK_BYTES, .ss_flags = flags};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void take_stack(void)
{
    stack_t none = {.ss_flags = SS_DISABLE}, old;
    CHECK(sigaltstack(&none, &old) == 0 && old.ss_sp == given);
    given = NULL;
}

static void *with_none(void *argument)
{
    note_stack();
    said("thread without");
    all_signals("thread without");
    return argument;
}

static void *with_one(void *argument)
{
    pthread_t other;
    note_stack();
    give_stack(0);
    all_signals("thread with");
    pthread_create(&other, NULL, with_none, NULL);
    pthread_join(other, NULL);
    said("thread with");
    return argument;
}

/* While it is on it, a stack cannot be changed; and a handler's changes of the context count. */
static void on_trap(int number, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    stack_t now, other = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == (given ? SS_ONSTACK : SS_DISABLE));
    CHECK(!given || (sigaltstack(&other, NULL) == -1 && errno == EPERM));
    uc->uc_mcontext.gregs[REG_RBX] += 41;
}

/* All registers but one are as they were, vectors included. */
static NOINLINE void through_trap(const char *when)
{
    uint64_t value = 1, before[2] = {0x1234567890abcdef, 0xfedcba0987654321}, after[2];
    __asm__ volatile("mov %1, %%rbx\n movups %2, %%xmm9\n int3\n movups %%xmm9, %0\n mov %%rbx, %1"
                     : "=m"(after), "+r"(value)
                     : "m"(before)
                     : "rbx", "xmm9", "memory");
    CHECK(value == 42 && memcmp(before, after, sizeof after) == 0);
    printf("%s: %d after the trap\n", when, (int)value);
}

static void errors(void)
{
    stack_t bad = {.ss_sp = &bad, .ss_size = 100}, odd = {.ss_flags = 77, .ss_size = STACK_BYTES};
    CHECK(sigaltstack(&bad, NULL) == -1 && errno == ENOMEM);
    CHECK(sigaltstack(&odd, NULL) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_sigaltstack, (void *)16, NULL) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_sigaltstack, NULL, (void *)16) == -1 && errno == EFAULT);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_ONSTACK | SA_SIGINFO}, old;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    CHECK(sigaction(SIGALRM, NULL, &old) == 0 && old.sa_sigaction == on_signal);
    CHECK((old.sa_flags & SA_ONSTACK) && (old.sa_flags & SA_SIGINFO));
    action.sa_sigaction = on_trap;
    sigaction(SIGTRAP, &action, NULL);
    action = (struct sigaction){.sa_handler = on_plain, .sa_flags = SA_ONSTACK};
    sigaction(SIGURG, &action, NULL);
    CHECK(signal(SIGURG, SIG_IGN) == on_plain);
    sigaction(SIGURG, &action, &old);
    CHECK(old.sa_handler == SIG_IGN);
    action.sa_flags |= SA_RESETHAND;
    sigaction(SIGWINCH, &action, NULL);
    raise(SIGWINCH);
    CHECK(sigaction(SIGWINCH, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
}

int main(void)
{
    pthread_t thread;
    note_stack();
    install();
    errors();
    said("at first");
    all_signals("main without");
    through_trap("without");
    pthread_create(&thread, NULL, with_one, NULL);
    pthread_join(thread, NULL);
    said("still");
    give_stack(0);
    said("given");
    all_signals("main with");
    through_trap("with");
    errors();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        said("child");
        all_signals("child");
        take_stack();
        all_signals("child without");
        _exit(torture_end());
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    take_stack();
    said("taken");
    all_signals("main again without");
    give_stack(SS_AUTODISARM);
    raise(SIGUSR2);
    printf("disarming: %s\n", where);
    take_stack();
    all_signals("at last");
    through_trap("at last");
    return torture_end();
}
