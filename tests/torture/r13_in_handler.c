/*
 * Row 13: the stack overflows at another place each time, which may be in code that is not the
 * program's own, and in contexts that are new each time; the handler works for a while. Samples of
 * the handler are walked through whatever had no stack left.
 */
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>

enum { PLACES = 24, STACK_BYTES = 64 << 10 };

static sigjmp_buf out;
static volatile int overflows;

static NOINLINE long without_end(long depth)
{
    volatile char room[256];
    room[0] = (char)depth;
    spin(1);
    return without_end(depth + 1) + room[0];
}

static NOINLINE long shifted(int place)
{
    volatile char room[16];
    room[0] = (char)place;
    return (place ? shifted(place - 1) : without_end(0)) + room[0];
}

static NOINLINE void in_handler(void)
{
    burn_ms(10);
}

static void on_fault(int number)
{
    overflows += number == SIGSEGV;
    in_handler();
    siglongjmp(out, 1);
}

static void *in_thread(void *argument)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    for (volatile int i = 0; i < PLACES; i++)
        if (sigsetjmp(out, 1) == 0)
            shifted(i);
    return argument;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    printf("overflows %d\n", overflows);
    return torture_end();
}
