/*
 * Row 13: a thread whose stack overflows again and again, which the program handles. Samples come
 * when there is little stack left: for the kernel's frame and no more, or not even for that.
 */
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>

enum { OVERFLOWS = 20000 };

static sigjmp_buf out;
static volatile int overflows;

static NOINLINE long without_end(long depth)
{
    volatile char room[64];
    room[0] = (char)depth;
    spin(30);
    return without_end(depth + 1) + room[0];
}

static void on_fault(int number)
{
    overflows += number == SIGSEGV;
    siglongjmp(out, 1);
}

static void *in_thread(void *argument)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    burn_ms(30); /* the first sample cannot be had where the kernel finds no room for its frame */
    for (volatile int i = 0; i < OVERFLOWS; i++)
        if (sigsetjmp(out, 1) == 0)
            without_end(0);
    return argument;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 32 << 10);
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    printf("overflows %d\n", overflows);
    burn_ms(50);
    return torture_end();
}
