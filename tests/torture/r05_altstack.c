/*
 * Row 5: handlers on alternate stacks that are just large enough, of 4, 8 and 64 KB, nested
 * handlers, and handlers that burn while they are sampled. The words below each stack must stay as
 * they are.
 */
#include "torture.h"

#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum { GUARD = 4096 };

static volatile sig_atomic_t depth, deepest;

static NOINLINE void in_handler(void)
{
    burn_ms(60);
}

static void on_user(int number)
{
    depth++;
    if (depth > deepest)
        deepest = depth;
    in_handler();
    if (depth < 3 && number == SIGUSR2)
        raise(SIGUSR2);
    depth--;
}

/* The memory below the stack is filled; a frame that did not fit has written there. */
static void run(size_t bytes, int number, const char *name)
{
    unsigned char *memory =
        mmap(NULL, bytes + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 0xa5, GUARD);
    stack_t stack = {.ss_sp = memory + GUARD, .ss_size = bytes}, now;
    CHECK(sigaltstack(&stack, NULL) == 0);
    deepest = 0;
    raise(number);
    int written = 0;
    for (int i = 0; i < GUARD; i++)
        written += memory[i] != 0xa5;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack.ss_sp && now.ss_size == bytes);
    CHECK(written == 0);
    printf("%s: depth %d, %s\n", name, (int)deepest, written ? "overflow" : "no overflow");
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    munmap(memory, bytes + GUARD);
}

static NOINLINE void called_main_stack(void)
{
    raise(SIGUSR2);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_user, .sa_flags = SA_ONSTACK | SA_NODEFER}, now;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    /* Room for one signal frame and a little, but not for two. */
    burn_ms(5); /* the lazy binder needs more than there is */
    run(getauxval(AT_MINSIGSTKSZ) + 1536, SIGUSR1, "one frame");
    run(4096, SIGUSR1, "4 KB");
    run(8192, SIGUSR1, "8 KB");
    run(65536, SIGUSR1, "64 KB");
    run(65536, SIGUSR2, "64 KB, nested");
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == on_user &&
          (now.sa_flags & SA_ONSTACK) && (now.sa_flags & SA_NODEFER));
    called_main_stack();
    printf("on the thread's own stack: %d\n", (int)deepest);
    return torture_end();
}
