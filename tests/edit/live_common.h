/* What the tests of live.c share: their code's sites, stubs for the ranges, and what is right. */
#ifndef LIVE_COMMON_H
#define LIVE_COMMON_H

#include "runtime/confined.h"
#include "runtime/edit/live.h"
#include "runtime/sample_signal.h"
#include "runtime/thread.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CALLS = 64, RANGES = 5, MOST_RANGE_BYTES = 32, CALL_BYTES = 5, PAGE = 4096 };

struct call {
    long (*function)(long);
    uint8_t *site;
};

struct range {
    long (*function)(long, long (*)(long));
    uint8_t *site;
    uint64_t bytes, first_bytes;
};

/* live_code.S */
extern struct call calls[CALLS] __asm__("calls_table");
extern struct range ranges[RANGES] __asm__("ranges_table");
long callee_a(long);
long callee_b(long);
extern __thread long calls_a, calls_b;

static inline long twice(long x)
{
    return 2 * x;
}

static inline long right_call(int number, long x)
{
    return x + 7 + number;
}

static inline long right_range(int number, long x)
{
    unsigned long n = (unsigned long)x;
    switch (number) {
    case 0:
        return ((x + 0x11223344) ^ x) + 3;
    case 1:
        return (x + 0x11) ^ 0x5a;
    case 2:
        return 2 * (x + 1) + x;
    case 3:
        return (x + 0x21) ^ 0x3c;
    default:
        for (int i = 0; i < 50; i++) {
            n *= 5;
            n = (n << 3 | n >> 61) + 1;
            n ^= (unsigned long)x;
            n = n >> 1 | n << 63;
        }
        return (long)n;
    }
}

/* --- both ways of each site --------------------------------------------------------------------
 */

static uint8_t range_old[RANGES][MOST_RANGE_BYTES], range_new[RANGES][MOST_RANGE_BYTES];
static uint8_t *range_stub[RANGES];
static uint8_t call_bytes[CALLS][2][CALL_BYTES]; /* to callee_a, to callee_b */

static void write_relative(uint8_t *at, const uint8_t *target)
{
    int32_t distance = (int32_t)(target - (at + 4));
    memcpy(at, &distance, 4);
}

/*
 * The moved instructions, and a jump behind the site. The call at the end of one has its return
 * address where it was, as in real stubs: unwinders must know it.
 */
static uint8_t *write_stub(uint8_t *stub, const struct range *r)
{
    memcpy(stub, r->site, r->bytes);
    uint8_t *end = stub + r->bytes;
    if (memcmp(end - 2, "\xff\xd6", 2) == 0) { /* call *%rsi */
        uint64_t back = (uint64_t)(r->site + r->bytes);
        uint32_t high = (uint32_t)(back >> 32);
        memcpy(end - 2, "\x68", 1); /* push the low half, then write the high one */
        memcpy(end - 1, &back, 4);
        memcpy(end + 3, "\xc7\x44\x24\x04", 4);
        memcpy(end + 7, &high, 4);
        memcpy(end + 11, "\xff\xe6", 2); /* jmp *%rsi */
        return end + 13;
    }
    *end = 0xe9;
    write_relative(end + 1, r->site + r->bytes);
    return end + 5;
}

/*
 * The stubs lie where the last bytes of a jump to them are int3: a thread that goes on in the
 * middle of one is sure to be noticed. So are those behind it.
 */
static inline void make_sites(void)
{
    uint8_t *base = (uint8_t *)((uintptr_t)ranges[0].site & ~(uintptr_t)(PAGE - 1)) + 0x8000 -
                    ((int64_t)0x33340000);
    uint8_t *stub = mmap(base, PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (stub != base) {
        perror("memory for the stubs");
        exit(2);
    }
    for (int i = 0; i < RANGES; i++) {
        const struct range *r = &ranges[i];
        memcpy(range_old[i], r->site, r->bytes);
        memset(range_new[i], 0xcc, MOST_RANGE_BYTES);
        range_new[i][0] = 0xe9;
        int32_t distance = (int32_t)(stub - (r->site + 5));
        memcpy(range_new[i] + 1, &distance, 4);
        if (range_new[i][3] != 0xcc || range_new[i][4] != 0xcc) {
            fprintf(stderr, "the stub of range %d is not where it should be\n", i);
            exit(2);
        }
        range_stub[i] = stub;
        stub = write_stub(stub, r);
    }
    mprotect(base, PAGE, PROT_READ | PROT_EXEC);
    for (int i = 0; i < CALLS; i++)
        for (int to = 0; to < 2; to++) {
            const uint8_t *target = (const uint8_t *)(to ? callee_b : callee_a);
            int32_t distance = (int32_t)(target - (calls[i].site + 5));
            call_bytes[i][to][0] = 0xe8;
            memcpy(call_bytes[i][to] + 1, &distance, 4);
        }
}

/* A range that becomes a jump: or, since no thread can stand behind a jump, the other way round. */
static inline struct live_site range_change(int i, bool is_edit)
{
    const struct range *r = &ranges[i];
    return (struct live_site){(uint64_t)r->site, is_edit ? range_old[i] : range_new[i],
                              is_edit ? range_new[i] : range_old[i], (uint32_t)r->bytes,
                              (uint32_t)(is_edit ? r->first_bytes : r->bytes)};
}

static inline struct live_site call_change(int i, int to)
{
    return (struct live_site){(uint64_t)calls[i].site, call_bytes[i][!to], call_bytes[i][to],
                              CALL_BYTES, CALL_BYTES};
}

/* The mapping that the code is in, as the kernel lists it. */
static inline struct live_text own_text(void)
{
    struct live_text text = {.file = -1};
    char line[512];
    unsigned long start, end, offset;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 &&
            (uint64_t)ranges[0].site >= start && (uint64_t)ranges[0].site < end)
            text = (struct live_text){start, offset, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
    if (maps)
        fclose(maps);
    return text;
}

/* Without them, threads that never sleep are not seen, and ranges not changed. */
static inline bool has_perf_events(void)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    long fd = syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
}

/* --- what live.c asks of the rest of the runtime ------------------------------------------------
 */

enum { KNOWN_THREADS = 1 << 22 }; /* no thread has a higher number */
static uint64_t stack_tops[KNOWN_THREADS];

static inline void know_this_thread(void)
{
    stack_tops[gettid()] = (uint64_t)__builtin_frame_address(0) + 64;
}

bool is_confined(void)
{
    return false;
}

uint64_t thread_stack_top(uint32_t tid)
{
    return tid < KNOWN_THREADS ? stack_tops[tid] : 0;
}

#endif
