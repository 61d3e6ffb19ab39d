/* Row 20: a program with two threads, for a system that does not permit perf events. */
#include "torture.h"

#include <pthread.h>

static NOINLINE void *in_thread(void *argument)
{
    burn_ms(300);
    return argument;
}

static NOINLINE void in_main(void)
{
    burn_ms(300);
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    in_main();
    CHECK(pthread_join(thread, NULL) == 0);
    printf("burnt\n");
    return torture_end();
}
