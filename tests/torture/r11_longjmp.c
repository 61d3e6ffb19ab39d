/*
 * Row 11: longjmp over many frames, siglongjmp out of a handler, with and without the fortified
 * check, and calls that grow the stack again over what was left behind. The two `after` functions
 * are called from one place each: nothing else may be their caller.
 */
#include "torture.h"

#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf jump;
static volatile int jumped;

static NOINLINE int deep(int depth)
{
    volatile char room[64];
    room[0] = (char)depth;
    spin(300);
    if (depth == 0)
        siglongjmp(jump, 1);
    return deep(depth - 1) + room[0];
}

static NOINLINE void after_jump(void)
{
    spin(20000);
}

static NOINLINE int again(int depth)
{
    volatile long room[20] = {depth};
    if (depth == 0) {
        spin(20000);
        return 0;
    }
    return again(depth - 1) + (int)room[0];
}

static NOINLINE void jumps(void)
{
    for (volatile int i = 0; i < 2000; i++) {
        if (sigsetjmp(jump, i % 2) == 0)
            deep(i % 50);
        jumped++;
        after_jump();
        again(i % 20);
    }
}

static sigjmp_buf out;
static volatile int alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
    spin(20000);
    siglongjmp(out, 1);
}

static NOINLINE void after_handler(void)
{
    spin(500000);
}

static NOINLINE void from_handler(void)
{
    for (volatile int i = 0; i < 200; i++) {
        if (sigsetjmp(out, 1) == 0) {
            again(10);
            raise(SIGALRM);
        }
        after_handler();
    }
}

int main(void)
{
    signal(SIGALRM, on_alarm);
    jumps();
    from_handler();
    printf("jumped %d, alarms %d\n", jumped, alarms);
    return torture_end();
}
