/*
 * Runs two functions in turn, on two threads, and says when each began and ended: by the clock that
 * recordings use, in nanoseconds since 1970. A sample of a function can only have come in between.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { PARTS = 6, ROUNDS = 1000 };

struct part {
    const char *name;
    uint64_t start_ns, end_ns;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void spin(void)
{
    enum { ENOUGH_NS = 60000000 };
    uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ENOUGH_NS;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        for (volatile int i = 0; i < ROUNDS; i++)
            continue;
}

#define PART(name)                                                                                 \
    __attribute__((noinline)) static void name(void)                                               \
    {                                                                                              \
        spin();                                                                                    \
        __asm__ volatile("");                                                                      \
    }
PART(even)
PART(odd)
PART(even_beside)
PART(odd_beside)

static void run(struct part *parts, void (*const functions[2])(void), const char *const names[2])
{
    for (int i = 0; i < PARTS; i++) {
        parts[i] = (struct part){names[i % 2], now_ns(CLOCK_REALTIME), 0};
        functions[i % 2]();
        parts[i].end_ns = now_ns(CLOCK_REALTIME);
    }
}

static void *beside(void *parts)
{
    run(parts, (void (*const[])(void)){even_beside, odd_beside},
        (const char *const[]){"even_beside", "odd_beside"});
    return NULL;
}

int main(void)
{
    static struct part parts[2 * PARTS];
    pthread_t thread;
    pthread_create(&thread, NULL, beside, parts + PARTS);
    run(parts, (void (*const[])(void)){even, odd}, (const char *const[]){"even", "odd"});
    pthread_join(thread, NULL);
    for (int i = 0; i < 2 * PARTS; i++)
        printf("%s %lu %lu\n", parts[i].name, parts[i].start_ns, parts[i].end_ns);
    return 0;
}
