/*
 * Row 8: 6,000 threads one after the other, three functions deep, some with a name of their own.
 * What they leave in the arena is used again when many have ended, and nothing of it is lost: each
 * asks for memory twice, and a third of what is kept is freed by another thread.
 */
#include "torture.h"

#include <pthread.h>

enum { COUNT = 6000 };

static void *kept[COUNT];

static NOINLINE void *take_kept(void)
{
    void *memory = malloc(100);
    __asm__ volatile("" : "+r"(memory));
    return memory;
}

static NOINLINE void take_and_free(void)
{
    void *memory = malloc(1000);
    __asm__ volatile("" : "+r"(memory));
    free(memory);
}

static NOINLINE void *work(void *argument)
{
    intptr_t i = (intptr_t)argument;
    if (i % 4 == 0)
        pthread_setname_np(pthread_self(), "fourth");
    kept[i] = take_kept();
    take_and_free();
    return NULL;
}

int main(void)
{
    for (intptr_t i = 0; i < COUNT; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, (void *)i) != 0)
            return 1;
        pthread_join(thread, NULL);
        if (i % 3 == 0)
            free(kept[i]);
    }
    printf("calls take_kept %d\ncalls take_and_free %d\n", COUNT, COUNT);
    return torture_end();
}
