/*
 * Signals on the main stack: raised, nested, delivered when unblocked (two at once), caused by a
 * fault in a leaf function and recovered by siglongjmp, or by a handler that changes the
 * interrupted pc.
 */
#include "checksum.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf recover;
static volatile unsigned seen;
static char *guard;

NOINLINE static unsigned work(unsigned n)
{
    volatile unsigned total = n;
    for (unsigned i = 0; i < 5; i++)
        total = total * 3 + i;
    return total;
}

static void on_user1(int number)
{
    seen = seen * 5 + work((unsigned)number);
}

/* Another signal inside a handler. */
static void on_user2(int number)
{
    seen = seen * 7 + (unsigned)number;
    raise(SIGUSR1);
    seen += work(2);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen = seen * 11 + (unsigned)number + (unsigned)((char *)info->si_addr - guard);
    siglongjmp(recover, 1);
}

/* The faulting instruction below is two bytes long: go on behind it. */
static void on_fault_skip(int number, siginfo_t *info, void *context)
{
    ucontext_t *ucontext = context;
    (void)info;
    seen = seen * 13 + (unsigned)number;
    ucontext->uc_mcontext.gregs[REG_RIP] += 2;
    seen += work(3);
}

/* SIGTRAP must not be blocked while it is handled: a step's trap would end the process. */
static void on_trap(int number, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    seen = seen * 17 + work((unsigned)number);
}

static void install(int number, void (*handler)(int), void (*detailed)(int, siginfo_t *, void *))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (detailed) {
        action.sa_sigaction = detailed;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
    } else {
        action.sa_handler = handler;
    }
    sigaction(number, &action, NULL);
}

/* A leaf: it may keep locals in the red zone when the signal arrives. */
NOINLINE static unsigned touch(volatile char *address, unsigned n)
{
    volatile unsigned locals[4] = {n, n + 1, n + 2, n + 3};
    *address = (char)n;
    return locals[0] + locals[3];
}

NOINLINE static unsigned fault_at_depth(unsigned depth, char *address)
{
    unsigned n = work(depth);
    return depth ? fault_at_depth(depth - 1, address) + n : touch(address, n);
}

NOINLINE static void skip_fault(char *address)
{
    __asm__ volatile("movb %%al, (%0)" : : "c"(address), "a"(0) : "memory");
}

int main(void)
{
    install(SIGUSR1, on_user1, NULL);
    install(SIGUSR2, on_user2, NULL);
    install(SIGSEGV, NULL, on_fault);
    guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    raise(SIGUSR1);
    raise(SIGUSR2);
    kill(getpid(), SIGUSR1);

    sigset_t both, old;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    sigprocmask(SIG_BLOCK, &both, &old);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigprocmask(SIG_SETMASK, &old, NULL);
    check(seen);

    for (volatile unsigned i = 0; i < 4; i++) {
        if (sigsetjmp(recover, 1) == 0)
            check(fault_at_depth(i * 2, guard + i));
        else
            check(seen + i);
    }
    install(SIGSEGV, NULL, on_fault_skip);
    skip_fault(guard);
    check(seen);

    /* The program's own traps, which the stepper must not take for its own. */
    install(SIGTRAP, NULL, on_trap);
    __asm__ volatile("int3");
    raise(SIGTRAP);
    check(seen);
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
    return print_checksum("signals");
}
