/* Row 30: handlers of the program's own for SIGTRAP and SIGSEGV, and an int3 of its own. */
#include "torture.h"

#include <setjmp.h>
#include <signal.h>

static volatile int traps, faults;
static sigjmp_buf back;

__attribute__((noinline)) static int note(int n)
{
    __asm__ volatile("" : "+r"(n));
    return n + 1;
}

static void on_trap(int number)
{
    (void)number;
    traps = note(traps);
}

static void on_fault(int number)
{
    (void)number;
    faults = note(faults);
    siglongjmp(back, 1);
}

int main(void)
{
    signal(SIGTRAP, on_trap);
    signal(SIGSEGV, on_fault);
    for (int i = 0; i < 20000; i++)
        __asm__ volatile("int3");
    for (volatile int i = 0; i < 20000; i++)
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)8 = note(i);
    printf("%d traps, %d faults\n", traps, faults);
    return 0;
}
