/*
 * Two pairs of threads that wake each other in turn, as servers and their clients do, a third of
 * their work in one function and the rest in another; until stdin ends. From the first byte there
 * on, their stacks are higher than the window that recordings begin with.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS = 2, STEPS = 1000, FRAMES = 10, FRAME_BYTES = 1000 };
static int pipes[PAIRS][2][2]; /* of each pair, to one and to the other */
static volatile uint32_t result;
static volatile int is_deep;

__attribute__((noinline)) uint32_t hot(uint32_t x, int n)
{
    for (int i = 0; i < n; i++)
        x = x * 1103515245 + 12345;
    return x;
}

__attribute__((noinline)) void left(void)
{
    result += hot(result, STEPS);
}

__attribute__((noinline)) void right(void)
{
    result += hot(result, 2 * STEPS);
}

__attribute__((noinline)) void both(int frames)
{
    volatile char frame[FRAME_BYTES];
    frame[0] = 0;
    if (frames > 0) {
        both(frames - 1);
    } else {
        left();
        right();
    }
    frame[0] = 1; /* so that this is no tail call */
}

/* Passes on what it gets, until nothing comes. */
static void *answer(void *number)
{
    long n = (long)number;
    int from = pipes[n / 2][n % 2][0], to = pipes[n / 2][1 - n % 2][1];
    char word;
    while (read(from, &word, 1) == 1) {
        both(is_deep ? FRAMES : 0);
        if (write(to, &word, 1) != 1)
            break;
    }
    close(to);
    return NULL;
}

int main(void)
{
    pthread_t threads[2 * PAIRS];
    char word = 0;
    for (long n = 0; n < 2 * PAIRS; n++)
        if (pipe(pipes[n / 2][n % 2]) != 0)
            abort();
    for (long n = 0; n < 2 * PAIRS; n++)
        pthread_create(&threads[n], NULL, answer, (void *)n);
    for (int i = 0; i < PAIRS; i++)
        if (write(pipes[i][0][1], &word, 1) != 1)
            abort();
    puts("begun");
    fflush(stdout);
    while (read(0, &word, 1) > 0)
        is_deep = 1;
    puts("ends");
    return 0;
}
