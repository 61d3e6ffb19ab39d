/*
 * What a calling context costs at depths 10, 50 and 200: ct_here, ct_here and ct_key, backtrace()
 * of libc and of libunwind, which keeps what it has learnt of return addresses, and libunwind's
 * steps, in turn, in nanoseconds of CPU time each; and ct_here where nothing is recorded.
 *
 *     cc -O2 -Iinclude -o here bench/here.c -lunwind
 *     ./here && calltrail record --engine encode ./here
 *
 * Each figure is the least of nine turns: what else runs on the machine only adds. From what is
 * measured that of an empty loop is taken off.
 */
#define UNW_LOCAL_ONLY
#define _GNU_SOURCE
#include <calltrail.h>
#include <libunwind.h>
#include <stdio.h>
#include <time.h>

enum { TURNS = 9, FRAMES = 512 };

static volatile uint64_t sink;
enum { NOTHING, HERE, KEY, LIBC, LIBUNWIND, STEPS, WAYS };

static double least[WAYS];
static int (*libc_backtrace)(void **, int); /* libunwind has one of this name */

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void nothing(long times)
{
    for (long i = 0; i < times; i++) {
        struct ct_snapshot s;
        __asm__ volatile("" : : "r"(&s) : "memory");
    }
}

static __attribute__((noinline)) void take(long times)
{
    for (long i = 0; i < times; i++) {
        struct ct_snapshot s;
        ct_here(&s);
        __asm__ volatile("" : : "r"(&s) : "memory");
    }
}

static __attribute__((noinline)) void take_keys(long times)
{
    for (long i = 0; i < times; i++) {
        struct ct_snapshot s;
        ct_here(&s);
        sink += ct_key(&s);
    }
}

static __attribute__((noinline)) void walk_libc(long times)
{
    void *frames[FRAMES];
    for (long i = 0; i < times; i++)
        sink += (uint64_t)libc_backtrace(frames, FRAMES);
}

static __attribute__((noinline)) void walk_libunwind(long times)
{
    void *frames[FRAMES];
    for (long i = 0; i < times; i++)
        sink += (uint64_t)unw_backtrace(frames, FRAMES);
}

static __attribute__((noinline)) void take_steps(long times)
{
    for (long i = 0; i < times; i++) {
        unw_context_t context;
        unw_cursor_t cursor;
        unw_word_t ip;
        unw_getcontext(&context);
        unw_init_local(&cursor, &context);
        while (unw_step(&cursor) > 0) {
            unw_get_reg(&cursor, UNW_REG_IP, &ip);
            sink += ip;
        }
    }
}

static void measure(int which, void (*work)(long), long times)
{
    double begin = now_ns();
    work(times);
    double each = (now_ns() - begin) / (double)times;
    if (least[which] == 0 || each < least[which])
        least[which] = each;
}

static __attribute__((noinline)) void measure_all(void)
{
    for (int i = 0; i < WAYS; i++)
        least[i] = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        measure(NOTHING, nothing, 5000000);
        measure(HERE, take, 5000000);
        measure(KEY, take_keys, 1000000);
        measure(LIBC, walk_libc, 300);
        measure(LIBUNWIND, walk_libunwind, 300);
        measure(STEPS, take_steps, 300);
    }
}

static __attribute__((noinline)) int descend(int depth)
{
    if (depth == 0) {
        measure_all();
        return 0;
    }
    return descend(depth - 1) + 1;
}

int main(void)
{
    static const int depths[] = {10, 50, 200};
    struct ct_snapshot s;
    *(void **)&libc_backtrace = dlsym(dlopen("libc.so.6", RTLD_NOW), "backtrace");
    printf("%s\n", ct_here(&s) ? "recorded" : "not recorded");
    puts("depth  ct_here  with ct_key  backtrace  unw_backtrace  unw_step  (ns)");
    for (unsigned i = 0; i < 3; i++) {
        descend(depths[i]);
        printf("%5d  %7.2f  %11.2f  %9.0f  %13.0f  %8.0f\n", depths[i],
               least[HERE] - least[NOTHING], least[KEY] - least[NOTHING], least[LIBC],
               least[LIBUNWIND], least[STEPS]);
    }
    return sink == 1;
}
