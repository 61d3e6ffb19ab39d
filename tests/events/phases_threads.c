/* Two threads that burn CPU time in three phases, and measure it; a fourth part is paused. */
#define _GNU_SOURCE
#include <calltrail.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

static pthread_barrier_t barrier;
static double spent[3][2];

static double user_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
}

__attribute__((noinline)) static double burn(double s)
{
    volatile unsigned x = 0;
    double start = user_s();
    do
        for (int i = 0; i < 100000; i++)
            x += (unsigned)i;
    while (user_s() - start < s);
    return user_s() - start;
}

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
        spent[phase][me] = burn(0.2 * (phase + 1));
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
    return 0;
}
