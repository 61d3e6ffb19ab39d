/*
 * Pauses its measurement three times, and goes on. Prints how many bytes of its code differ from
 * the files that it came from meanwhile; the functions' names say whether their calls are to be
 * counted. With an argument, other threads work all the time: then nothing is counted after the
 * first pause.
 */
#include "code_compare.h"

#include <calltrail.h>
#include <pthread.h>

#define OUT __attribute__((noinline, noclone))

enum { THREADS = 3, TIMES = 3, NUMBERS = 64 };

static volatile int is_over;
static volatile long sum;

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

OUT static int work(unsigned state)
{
    int numbers[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = rand_r(&state) % 1000;
    qsort(numbers, NUMBERS, sizeof numbers[0], compare);
    for (int i = 1; i < NUMBERS; i++)
        if (numbers[i - 1] > numbers[i])
            abort();
    return numbers[7];
}

OUT static void counted(void)
{
    sum += work(1);
}

OUT static void not_counted(void)
{
    sum += work(2);
}

static void *run(void *unused)
{
    (void)unused;
    while (!is_over)
        work(3);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int count = argc > 1 ? THREADS : 0;
    (void)argv;
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < TIMES; i++) {
        counted();
        ct_pause();
        printf("%ld ", all_differing());
        not_counted();
        not_counted();
        ct_resume();
        counted();
    }
    is_over = 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", sum);
    return 0;
}
