/*
 * Works at the end of a chain of so many calls, with a kilobyte of stack each: in the first thread,
 * then in as many others as the second argument says, and in a child that each of them forks. With
 * a third argument the program says that it has begun, and these others go on until a file of that
 * name is there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int depth;
static const char *wait_for; /* while there is no such file, the others work */

__attribute__((noinline)) unsigned hot(unsigned x)
{
    volatile char room[500]; /* so that the stack pointer is not the frame pointer */
    room[0] = 0;
    for (long i = 0; i < 40000000; i++)
        x = x * 1103515245u + 12345u;
    return x + (unsigned)room[0];
}

/* The result does not depend on how often that is. */
__attribute__((noinline)) unsigned work_on(unsigned x)
{
    unsigned sum = hot(x);
    while (wait_for && access(wait_for, F_OK) != 0)
        sum = hot(x);
    return sum + 1;
}

__attribute__((noinline)) unsigned down(int left, unsigned x)
{
    volatile char room[1000];
    room[0] = (char)x;
    return (left ? down(left - 1, x) : work_on(x)) + (unsigned)room[0];
}

static void *work(void *unused)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit((int)(down(depth, 1) & 1));
    unsigned x = down(depth, 2);
    waitpid(child, &status, 0);
    return (void *)(unsigned long)(x + (unsigned)status + (unused != NULL));
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 0;
    pthread_t others[16];
    depth = argc > 1 ? atoi(argv[1]) : 0;
    if (argc > 3) {
        puts("begun");
        fflush(stdout);
    }
    unsigned long sum = down(depth, 1);
    wait_for = argc > 3 ? argv[3] : NULL;
    for (int i = 0; i < count && i < 16; i++)
        pthread_create(&others[i], NULL, work, NULL);
    for (int i = 0; i < count && i < 16; i++) {
        void *one;
        pthread_join(others[i], &one);
        sum += (unsigned long)one;
    }
    printf("%lu\n", sum);
    return 0;
}
