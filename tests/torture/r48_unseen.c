/*
 * Row 48: an alternate stack that is set without libc, by a system call of the program's own, and
 * has room for a signal frame and little more. What lies below it is the program's.
 */
#include "torture.h"

#include <sys/auxv.h>
#include <sys/syscall.h>

enum { AROUND_BYTES = 64 * 1024, MORE_BYTES = 1024 };

static char memory[2 * AROUND_BYTES] __attribute__((aligned(4096)));
static volatile int handled, was_there;

static void set_stack(char *start, uint64_t bytes)
{
    stack_t stack = {.ss_sp = start, .ss_size = bytes, .ss_flags = start ? 0 : SS_DISABLE};
    long status;
    __asm__ volatile("syscall"
                     : "=a"(status)
                     : "a"(SYS_sigaltstack), "D"(&stack), "S"(0)
                     : "rcx", "r11", "memory");
    CHECK(status == 0);
}

static void on_signal(int number)
{
    char here;
    handled++;
    was_there += &here > memory + AROUND_BYTES && &here < memory + sizeof memory;
}

static NOINLINE void beside_it(void)
{
    burn_ms(200);
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    memset(memory, 0x5a, sizeof memory);
    burn_ms(20);
    set_stack(memory + AROUND_BYTES, getauxval(AT_MINSIGSTKSZ) + MORE_BYTES);
    beside_it();
    raise(SIGUSR1);
    set_stack(NULL, 0);
    burn_ms(20);
    long changed = 0;
    for (long i = 0; i < AROUND_BYTES; i++)
        changed += memory[i] != 0x5a;
    printf("%d handled, %d there, %ld bytes changed below\n", handled, was_there, changed);
    return torture_end();
}
