/*
 * What a frame costs: calltrail's walker beside libunwind's unw_backtrace, glibc's backtrace and a
 * bare frame-pointer walk, on the same stack, in one run.
 *
 * Warm: the same stack walked again and again. Cold: a buffer larger than the caches is read
 * between two walks. The medians of many walks, in nanoseconds for one frame. All walkers must have
 * seen the same return addresses, or nothing is printed.
 */
#include "map/cache.h"
#include "unwind/memory.h"
#include "unwind/stack.h"
#include "walk_stack.h"

#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_MODULES = 64, MOST_FRAMES = 8192, EVICT_BYTES = 64 << 20 };

static struct map maps[MOST_MODULES];
static struct walk_module modules[MOST_MODULES];
static struct walk_modules module_set = {.items = modules};
static struct map_cache cache;
static uint64_t stack_start, stack_end;

static int add_module(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    (void)argument;
    struct ct_error err;
    uint32_t n = module_set.count;
    const char *path = *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
    if (n == MOST_MODULES || map_for_file(&cache, path, &maps[n], NULL, &err) != CT_OK)
        return 0; /* the vdso, which has no file */
    uint64_t base = info->dlpi_addr + maps[n].header->base;
    modules[n] = (struct walk_module){base, base + maps[n].header->span, base, &maps[n].tables};
    module_set.count++;
    return 0;
}

static int by_start(const void *a, const void *b)
{
    const struct walk_module *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static struct walk_frame frames[MOST_FRAMES];
static void *pcs[MOST_FRAMES];

/* The registers of the caller, as a signal would have found them at this instruction. */
static inline __attribute__((always_inline)) void capture(struct walk_registers *r)
{
    memset(r, 0, sizeof *r);
    __asm__ volatile("movq %%rbx, 24(%0)\n\t"
                     "movq %%rbp, 48(%0)\n\t"
                     "movq %%rsp, 56(%0)\n\t"
                     "movq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\t"
                     "movq %%r14, 112(%0)\n\t"
                     "movq %%r15, 120(%0)\n\t"
                     "leaq 0f(%%rip), %%rax\n\t"
                     "0: movq %%rax, 128(%0)\n\t"
                     :
                     : "r"(r->value)
                     : "rax", "memory");
}

static __attribute__((noinline)) int walk_calltrail(void)
{
    static struct walk_cache thread_cache;
    struct walk_registers r;
    struct walk_memory memory = memory_of_this_process(stack_start, stack_end);
    capture(&r);
    return (int)walk_frames_cached(&thread_cache, &module_set, &r, &memory, frames, MOST_FRAMES)
        .count;
}

static struct thread_stack known_stack;

static __attribute__((noinline)) int walk_again(void)
{
    struct walk_registers r;
    struct walk_memory memory = memory_of_this_process(stack_start, stack_end);
    capture(&r);
    stack_walk(&known_stack, &module_set, &r, &memory, (struct stack_mark){0});
    return (int)known_stack.count;
}

static __attribute__((noinline)) int walk_tables(void)
{
    struct walk_registers r;
    struct walk_memory memory = memory_of_this_process(stack_start, stack_end);
    capture(&r);
    return (int)walk_frames(&module_set, &r, &memory, frames, MOST_FRAMES).count;
}

static __attribute__((noinline)) int walk_libunwind(void)
{
    return unw_backtrace(pcs, MOST_FRAMES);
}

/* libunwind has a function of that name too, so glibc's own is asked for. */
static int (*glibc_backtrace)(void **, int);

static __attribute__((noinline)) int walk_glibc(void)
{
    return glibc_backtrace(pcs, MOST_FRAMES);
}

static __attribute__((noinline, optimize("no-omit-frame-pointer"))) int walk_frame_pointers(void)
{
    uint64_t *frame = __builtin_frame_address(0);
    int n = 0;
    while (n < MOST_FRAMES && (uint64_t)frame >= stack_start && (uint64_t)frame < stack_end - 16) {
        uint64_t *next = (uint64_t *)frame[0];
        pcs[n++] = (void *)frame[1];
        if (next <= frame)
            break;
        frame = next;
    }
    return n;
}

enum { AGAIN, OURS, TABLES, LIBUNWIND, GLIBC, FRAME_POINTERS, WALKERS };

static int (*const walkers[WALKERS])(void) = {walk_again,     walk_calltrail, walk_tables,
                                              walk_libunwind, walk_glibc,     walk_frame_pointers};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

static char *evict_buffer;

static void evict(void)
{
    for (size_t i = 0; i < EVICT_BYTES; i += 64)
        evict_buffer[i]++;
}

struct job {
    int depth;
    bool has_frame_pointers;
    bool agree;
    double warm[WALKERS], cold[WALKERS];
};

/*
 * Frames above the function that all walkers were called from must be the same. The walkers' own
 * first frames differ in number, so they are compared from the outermost frame of `grown` ones on.
 */
static bool same_frames(int ours, int theirs, int depth)
{
    int checked = 0;
    for (int i = 1; i < ours; i++) {
        for (int k = 0; k < theirs; k++) {
            if (pcs[k] != (void *)frames[i].pc)
                continue;
            while (i < ours && k < theirs && pcs[k] == (void *)frames[i].pc) {
                i++;
                k++;
                checked++;
            }
            return checked >= depth;
        }
    }
    return false;
}

/* Rounds are interleaved, so that a slow minute of the machine is slow for all. */
static __attribute__((noinline, optimize("no-omit-frame-pointer"))) int measure(void *argument)
{
    struct job *job = argument;
    enum { ROUNDS = 15 };
    static double warm[WALKERS][ROUNDS], cold[WALKERS][ROUNDS];
    int repeat = 100000 / (job->depth + 8) + 1;
    job->agree = true;
    for (int round = 0; round < ROUNDS; round++) {
        for (int w = 0; w < WALKERS; w++) {
            if (w == FRAME_POINTERS && !job->has_frame_pointers)
                continue;
            int used = w == GLIBC ? repeat / 20 + 1 : repeat;
            int count = walkers[w]();
            if (w > TABLES)
                job->agree = job->agree && same_frames(walkers[OURS](), count, job->depth);
            double start = now_ns();
            for (int i = 0; i < used; i++)
                walkers[w]();
            warm[w][round] = (now_ns() - start) / used / count;
            evict();
            start = now_ns();
            walkers[w]();
            cold[w][round] = (now_ns() - start) / count;
        }
    }
    for (int w = 0; w < WALKERS; w++) {
        job->warm[w] = median(warm[w], ROUNDS);
        job->cold[w] = median(cold[w], ROUNDS);
    }
    return 0;
}

static int run_stack(bool frame_pointers, enum stack_shape shape, int depth)
{
    struct job job = {.depth = depth, .has_frame_pointers = frame_pointers};
    (frame_pointers ? grow_stack_with_frame_pointers
                    : grow_stack_without_frame_pointers)(depth, shape, 12345, measure, &job);
    for (int cold = 0; cold <= 1; cold++) {
        const double *ns = cold ? job.cold : job.warm;
        double best = ns[LIBUNWIND] < ns[GLIBC] ? ns[LIBUNWIND] : ns[GLIBC];
        char fp[16] = "-";
        if (frame_pointers)
            snprintf(fp, sizeof fp, "%.1f", ns[FRAME_POINTERS]);
        printf("| %s, %s | %d | %s | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %.2f | %.2f |\n",
               shape == RANDOM ? "random calls" : "recursion", frame_pointers ? "fp" : "no fp",
               depth, cold ? "cold" : "warm", ns[AGAIN], ns[OURS], ns[TABLES], ns[LIBUNWIND],
               ns[GLIBC], fp, ns[AGAIN] / best, ns[OURS] / best);
    }
    if (!job.agree)
        printf("the walkers disagree at depth %d\n", depth);
    return !job.agree;
}

static int run(void)
{
    static const int depths[] = {8, 64, 512, 4096};
    int failed = 0;
    printf("| stack | depth | cache | again | first | tables only | unw_backtrace | backtrace() | "
           "frame pointers | again / faster library | first / faster library |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int shape = RECURSION; shape <= RANDOM; shape++)
        for (int fp = 1; fp >= 0; fp--)
            for (unsigned i = 0; i < sizeof depths / sizeof depths[0]; i++)
                failed |= run_stack(fp, (enum stack_shape)shape, depths[i]);
    return failed;
}

int main(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &low, &size);
    stack_end = (uint64_t)low + size;
    stack_start = (uint64_t)__builtin_frame_address(0) - (4 << 20);
    evict_buffer = calloc(1, EVICT_BYTES);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    glibc_backtrace = (int (*)(void **, int))dlsym(libc, "backtrace");
    glibc_backtrace(pcs, 1); /* loads libgcc_s, before the modules are listed */
    known_stack.room = MOST_FRAMES;
    known_stack.past = calloc(MOST_FRAMES, sizeof *known_stack.past);
    known_stack.frames = calloc(MOST_FRAMES, sizeof *known_stack.frames);
    known_stack.fresh = calloc(MOST_FRAMES, sizeof *known_stack.fresh);
    map_cache_open(&cache);
    dl_iterate_phdr(add_module, NULL);
    qsort(modules, module_set.count, sizeof *modules, by_start);
    printf("ns for each frame, medians\n\n");
    return run();
}
