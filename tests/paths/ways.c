/* Ways through functions whose number is known: of `pick` there are four, taken 167, 333, 167 and
 * 333 times in 1000 calls (by 2 and 3, by 2, by 3, by neither). `ways N` does that in N threads,
 * too; `ways jump` leaves `pick` by longjmp each time. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 1000 };

static volatile long sink;
static jmp_buf back;
static volatile int jumps;

__attribute__((noinline)) static void note(long n)
{
    sink = n;
    if (jumps)
        longjmp(back, 1);
}

__attribute__((noinline)) static long pick(long n)
{
    long sum = n;
    if (n % 2 == 0) {
        note(n);
        sum += sink;
    }
    if (n % 3 == 0) {
        note(sum);
        sum ^= sink;
    }
    return sum;
}

/* A table of cases, a loop, and recursion, for comparison with single steps. */
__attribute__((noinline)) static long choose(long n)
{
    switch (n % 7) {
    case 0:
        note(n);
        return 1;
    case 1:
        return n * 3;
    case 2:
        return n ^ 5;
    case 3:
        note(n + 1);
        break;
    case 4:
        return n / 3;
    case 5:
        n += 2;
        break;
    default:
        return n - 1;
    }
    for (long i = 0; i < n % 11; i++)
        n += i % 3 ? i : n >> 1;
    return n > 20 ? choose(n / 2) + 1 : n;
}

static void *work(void *unused)
{
    for (long n = 0; n < CALLS; n++)
        pick(n);
    return unused;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t ids[16];
    long sum = 0;
    jumps = argc > 1 && strcmp(argv[1], "jump") == 0;
    for (volatile long n = 0; jumps && n < CALLS; n++)
        if (setjmp(back) == 0)
            pick(n);
    jumps = 0;
    for (int i = 0; i < threads && i < 16; i++)
        pthread_create(&ids[i], NULL, work, NULL);
    for (int i = 0; i < threads && i < 16; i++)
        pthread_join(ids[i], NULL);
    work(NULL);
    for (long n = 0; n < 60; n++)
        sum += choose(n);
    printf("%ld\n", sum);
    return 7;
}
