/*
 * Row 11: a timer's handler jumps out of whatever it has interrupted, two thousand times. If that
 * is the sampling handler, the thread must still be sampled afterwards.
 */
#include "torture.h"

#include <setjmp.h>
#include <sys/time.h>

enum { ALARMS = 2000 };

static sigjmp_buf out;
static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
    siglongjmp(out, 1);
}

static NOINLINE void interrupted(void)
{
    for (;;)
        spin(1000);
}

static NOINLINE void afterwards(void)
{
    burn_ms(200);
}

int main(void)
{
    struct itimerval every = {{0, 300}, {0, 300}}, none = {0};
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &every, NULL);
    sigsetjmp(out, 1);
    if (alarms < ALARMS)
        interrupted();
    setitimer(ITIMER_REAL, &none, NULL);
    printf("jumped out %s\n", alarms >= ALARMS ? "every time" : "too seldom");
    signal(SIGALRM, SIG_IGN);
    afterwards();
    return torture_end();
}
