/*
 * Three threads call without pause, while the main thread compares all code of the process with the
 * files that it came from, until they are the same: which they are when the recorder has put the
 * original code back. Prints how that ended; the sums are to be as in a run that is not recorded.
 */
#include "code_compare.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 3, NUMBERS = 64, MOST_SECONDS = 60 };

static volatile int is_over;

static int compare(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void *work(void *bad)
{
    unsigned state = 1;
    while (!is_over) {
        int numbers[NUMBERS];
        char text[32];
        for (int i = 0; i < NUMBERS; i++)
            numbers[i] = rand_r(&state) % 1000;
        qsort(numbers, NUMBERS, sizeof numbers[0], compare);
        for (int i = 1; i < NUMBERS; i++)
            *(long *)bad += numbers[i - 1] > numbers[i];
        snprintf(text, sizeof text, "%d", numbers[7]);
        *(long *)bad += atoi(text) != numbers[7];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    long bad[THREADS] = {0}, sum = 0;
    time_t end = time(NULL) + MOST_SECONDS;
    int was_edited = argc < 2; /* with an argument: first wait until it has been changed */
    (void)argv;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &bad[i]);
    while (time(NULL) < end) {
        long differ = all_differing();
        if (differ)
            was_edited = 1;
        else if (was_edited)
            break;
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += bad[i];
    }
    printf("%s, %ld wrong\n",
           time(NULL) < end ? "the code is the file's" : "the code is not the file's", sum);
    return 0;
}
