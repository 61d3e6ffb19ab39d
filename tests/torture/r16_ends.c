/*
 * Row 16: the program ends without warning, in the way that the argument says, after it has burnt a
 * known time: everything up to that instant is in the profile.
 */
#include "torture.h"

#include <pthread.h>

static pthread_barrier_t burnt;

static NOINLINE void before_the_end(void)
{
    burn_ms(300);
}

static NOINLINE void *beside(void *argument)
{
    burn_ms(100);
    pthread_barrier_wait(&burnt);
    for (;;)
        pause();
    return argument;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "after_exec") == 0) {
        burn_ms(50);
        return 0;
    }
    pthread_t thread;
    pthread_barrier_init(&burnt, NULL, 2);
    pthread_create(&thread, NULL, beside, NULL);
    printf("%s\n", how);
    fflush(stdout);
    before_the_end();
    pthread_barrier_wait(&burnt);
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(how, "segv") == 0)
        *(volatile int *)8 = 1;
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "term") == 0)
        raise(SIGTERM);
    if (strcmp(how, "_exit") == 0)
        _exit(33);
    if (strcmp(how, "exec") == 0)
        execl(argv[0], argv[0], "after_exec", NULL);
    return 99;
}
