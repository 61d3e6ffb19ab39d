/* Handlers on an alternate stack: returning, nested, and left by siglongjmp. */
#include "checksum.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_BYTES = 64 * 1024 };

static sigjmp_buf recover;
static volatile unsigned seen;

NOINLINE static unsigned work(unsigned n)
{
    volatile unsigned char room[200];
    for (unsigned i = 0; i < 200; i += 50)
        room[i] = (unsigned char)(n + i);
    return n ? work(n - 1) + room[50] : room[100];
}

static void on_other(int number)
{
    seen = seen * 3 + (unsigned)number + work(3);
}

static void on_main_stack(int number)
{
    seen = seen * 5 + (unsigned)number + work(1);
}

static void on_user(int number)
{
    seen = seen * 7 + (unsigned)number + work(4);
    raise(SIGUSR2);  /* on the alternate stack too */
    raise(SIGWINCH); /* without SA_ONSTACK: stays where it is */
    seen += work(1);
}

static void on_fault(int number)
{
    seen = seen * 11 + (unsigned)number + work(2);
    siglongjmp(recover, 1);
}

static void install(int number, void (*handler)(int), int flags)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(number, &action, NULL);
}

NOINLINE static unsigned fault(volatile char *address, unsigned depth)
{
    if (depth)
        return fault(address, depth - 1) + work(1);
    *address = 1;
    return 1;
}

NOINLINE static void run(void *stack_memory)
{
    stack_t stack = {.ss_sp = stack_memory, .ss_size = STACK_BYTES};
    sigaltstack(&stack, NULL);
    raise(SIGUSR1);
    raise(SIGUSR2);
    raise(SIGWINCH);
    check(seen);
    char *guard = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (volatile unsigned i = 0; i < 3; i++) {
        if (sigsetjmp(recover, 1) == 0)
            check(fault(guard, i));
        else
            check(seen);
    }
}

int main(void)
{
    install(SIGUSR1, on_user, SA_ONSTACK);
    install(SIGUSR2, on_other, SA_ONSTACK);
    install(SIGWINCH, on_main_stack, 0);
    install(SIGSEGV, on_fault, SA_ONSTACK);
    /* Above the heap, below the stack; and, legally, inside the main stack. */
    char *memory = malloc(STACK_BYTES);
    run(memory);
    _Alignas(16) char inside[STACK_BYTES];
    run(inside);
    stack_t none = {.ss_flags = SS_DISABLE};
    sigaltstack(&none, NULL);
    free(memory);
    return print_checksum("altstack");
}
