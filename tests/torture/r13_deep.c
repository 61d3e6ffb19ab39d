/*
 * Row 13: recursion a million deep on a large stack, burning at the bottom; and recursion without
 * an end into the guard page, which the program handles on an alternate stack.
 */
#include "torture.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf out;
static volatile int overflows;

static NOINLINE long recurse(long depth)
{
    if (depth == 0) {
        burn_ms(500);
        return 0;
    }
    long below = recurse(depth - 1);
    __asm__ volatile("" : "+r"(below));
    return below + 1;
}

static NOINLINE long without_end(long depth)
{
    volatile char room[256];
    room[0] = (char)depth;
    spin(300);
    return without_end(depth + 1) + room[0];
}

static void on_fault(int number)
{
    overflows += number == SIGSEGV;
    spin(100000);
    siglongjmp(out, 1);
}

static void *in_thread(void *argument)
{
    (void)argument;
    printf("depth %ld\n", recurse(1000000));
    return NULL;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 20);
    CHECK(pthread_create(&thread, &attributes, in_thread, NULL) == 0);
    pthread_join(thread, NULL);

    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int i = 0; i < 5; i++)
        if (sigsetjmp(out, 1) == 0)
            without_end(0);
    printf("overflows %d\n", overflows);
    burn_ms(50);
    return torture_end();
}
