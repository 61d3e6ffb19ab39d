/*
 * Two threads that burn CPU time in three phases, and measure it, in user mode and in all; a fourth
 * part is paused.
 */
#include "own_time.h"

#include <calltrail.h>
#include <pthread.h>
#include <stdio.h>

static pthread_barrier_t barrier;
static double spent[3][2], spent_in_all[3][2];

__attribute__((noinline)) static double paused(void)
{
    return burn(0.1) + 1;
}

static void *run(void *argument)
{
    static const char *const names[] = {"one", "two", "three"};
    int me = argument != NULL;
    for (int phase = 0; phase < 3; phase++) {
        if (!me)
            ct_phase(names[phase]);
        pthread_barrier_wait(&barrier);
        double start = cpu_s();
        spent[phase][me] = burn(0.2 * (phase + 1));
        spent_in_all[phase][me] = cpu_s() - start;
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void)
{
    pthread_t other;
    pthread_barrier_init(&barrier, NULL, 2);
    ct_pause();
    paused();
    ct_resume();
    pthread_create(&other, NULL, run, &other);
    run(NULL);
    pthread_join(other, NULL);
    printf("one %f\ntwo %f\nthree %f\n", spent[0][0] + spent[0][1], spent[1][0] + spent[1][1],
           spent[2][0] + spent[2][1]);
    printf("one_in_all %f\ntwo_in_all %f\nthree_in_all %f\n",
           spent_in_all[0][0] + spent_in_all[0][1], spent_in_all[1][0] + spent_in_all[1][1],
           spent_in_all[2][0] + spent_in_all[2][1]);
    return 0;
}
