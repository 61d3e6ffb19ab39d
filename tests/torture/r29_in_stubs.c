/* Row 29: signals arrive anywhere, also between two instructions of what counts a call; the handler
 * calls, and leaves by siglongjmp; the program then calls on. */
#include "torture.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf back;
static volatile sig_atomic_t ticks, jumps, may_jump;
static volatile long sink;

__attribute__((noinline)) static long leaf(long n)
{
    sink += n;
    return n + 1;
}

__attribute__((noinline)) static long nest(long n)
{
    return n ? leaf(n) + nest(n - 1) : leaf(0);
}

static long (*volatile pointer)(long) = nest;

static void on_tick(int number)
{
    (void)number;
    ticks++;
    nest(5);
    if (may_jump && ticks % 3 == 0) {
        jumps++;
        siglongjmp(back, 1);
    }
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_tick};
    struct itimerval every = {{0, 500}, {0, 500}};
    long wrong = 0;
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &every, NULL);
    for (volatile int round = 0; round < 200; round++) {
        if (sigsetjmp(back, 1) == 0) {
            may_jump = 1;
            for (volatile int i = 0; i < 3000; i++)
                wrong += pointer(20 + i % 30) != (20 + i % 30) * (20 + i % 30 + 3) / 2 + 1;
        }
        may_jump = 0;
        wrong += nest(7) != 36;
    }
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    printf("%ld wrong, %s\n", wrong, ticks ? "ticks" : "no tick");
    return wrong != 0;
}
