/*
 * Works at the end of a chain of so many calls, with a kilobyte of stack each: in the first thread,
 * then in as many others as the second argument says, and in a child that each of them forks.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int depth;

__attribute__((noinline)) unsigned hot(unsigned x)
{
    volatile char room[500]; /* so that the stack pointer is not the frame pointer */
    room[0] = 0;
    for (long i = 0; i < 100000000; i++)
        x = x * 1103515245u + 12345u;
    return x + (unsigned)room[0];
}

__attribute__((noinline)) unsigned down(int left, unsigned x)
{
    volatile char room[1000];
    room[0] = (char)x;
    return (left ? down(left - 1, x) : hot(x)) + (unsigned)room[0];
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
    unsigned long sum = down(depth, 1);
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
