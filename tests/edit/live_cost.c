/*
 * What a change of live.c costs, with so many other threads:
 *
 *     live_cost THREADS BUSY      BUSY of them run, the others sleep
 *
 * One call that is pointed elsewhere, a batch of 1000 on 4 and on 100 pages, and a range that
 * becomes a jump. Medians, in us.
 */
#include "live_common.h"

#include <pthread.h>
#include <time.h>

enum { TIMES = 400, BATCH = 1000 };

static _Atomic bool is_over;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void *work(void *is_busy)
{
    struct timespec time = {0, 5000000};
    know_this_thread();
    while (!is_over) {
        for (int i = 0; i < CALLS; i++)
            calls[i].function(i);
        ranges[0].function(1, twice);
        if (!is_busy)
            nanosleep(&time, NULL);
    }
    return NULL;
}

static int by_number(const void *a, const void *b)
{
    return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static struct live_text text;

static void measure(const char *what, const struct live_site *there, const struct live_site *back,
                    uint32_t count, int times)
{
    uint64_t took[2][TIMES];
    int done[2] = {0, 0};
    for (int i = 0; i < times; i++)
        for (int way = 0; way < 2; way++) {
            uint64_t start = now_ns();
            bool did = live_replace(&text, way ? back : there, count, UINT64_C(10000000000));
            if (did)
                took[way][done[way]++] = now_ns() - start;
        }
    for (int way = 0; way < 2; way++) {
        qsort(took[way], (size_t)done[way], sizeof took[way][0], by_number);
        if (done[way])
            printf("%-28s %s %9.1f (10%%: %.1f, 90%%: %.1f)\n", what, way ? "back" : "    ",
                   (double)took[way][done[way] / 2] / 1e3, (double)took[way][done[way] / 10] / 1e3,
                   (double)took[way][done[way] * 9 / 10] / 1e3);
    }
}

/* Calls that are never run, so far apart, in memory without a file. */
static void measure_batch(const char *what, int apart)
{
    static struct live_site there[BATCH], back[BATCH];
    static const uint8_t bytes[2][CALL_BYTES] = {{0xe8, 1, 2, 3, 4}, {0xe8, 5, 6, 7, 8}};
    uint8_t *code = mmap(NULL, (size_t)BATCH * (size_t)apart, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < BATCH; i++) {
        uint8_t *at = code + i * apart;
        memcpy(at, bytes[0], CALL_BYTES);
        there[i] = (struct live_site){(uint64_t)at, bytes[0], bytes[1], CALL_BYTES, CALL_BYTES};
        back[i] = (struct live_site){(uint64_t)at, bytes[1], bytes[0], CALL_BYTES, CALL_BYTES};
    }
    mprotect(code, (size_t)BATCH * (size_t)apart, PROT_READ | PROT_EXEC);
    struct live_text before = text;
    text.file = -1;
    measure(what, there, back, BATCH, TIMES / 10);
    text = before;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[1]) : 2, busy = argc > 2 ? atoi(argv[2]) : 1;
    pthread_t made[256];
    make_sites();
    know_this_thread();
    text = own_text();
    for (int i = 0; i < count && i < 256; i++)
        pthread_create(&made[i], NULL, work, i < busy ? made : NULL);
    struct live_site there = call_change(3, 1), back = call_change(3, 0);
    measure("one call", &there, &back, 1, TIMES);
    text.file = -text.file - 1;
    measure("one call, anonymous", &there, &back, 1, TIMES);
    text.file = -text.file - 1;
    measure_batch("1000 calls on 4 pages", 16);
    measure_batch("1000 calls on 100 pages", 400);
    there = range_change(0, true);
    back = range_change(0, false);
    measure("range", &there, &back, 1, TIMES / 20);
    is_over = true;
    for (int i = 0; i < count && i < 256; i++)
        pthread_join(made[i], NULL);
    return 0;
}
