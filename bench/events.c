/*
 * What is measured by bench/events.py. Each mode prints numbers that the program takes itself.
 *
 *     events alloc ROUNDS              builds and frees trees of small nodes and strings; CPU
 * seconds events CALL CALLS DEPTH          calls that could wait (read, poll) at some depth of the
 * stack, with measuring paused and not, in turn: ns for each, of either events plain-CALL CALLS
 * DEPTH    the same, never paused events moving-CALL CALLS DEPTH   each from another stack than the
 * one before, paused and not
 */
#include "calltrail.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* --- memory --- */

struct node {
    struct node *left, *right;
    char *name;
};

static uint64_t random_state = 88172645463325252u;

static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

__attribute__((noinline)) static struct node *grow(int depth)
{
    struct node *n = malloc(sizeof *n);
    size_t length = 8 + random_number() % 120;
    n->name = malloc(length);
    memset(n->name, 'x', length);
    n->left = depth ? grow(depth - 1) : NULL;
    n->right = depth ? grow(depth - 1) : NULL;
    return n;
}

__attribute__((noinline)) static uint64_t fell(struct node *n)
{
    if (!n)
        return 0;
    uint64_t sum = (uint64_t)n->name[0] + fell(n->left) + fell(n->right);
    free(n->name);
    free(n);
    return sum;
}

static int allocate(long rounds)
{
    uint64_t sum = 0, start = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct node *kept = grow(14);
    for (long i = 0; i < rounds; i++)
        sum += fell(grow(12));
    sum += fell(kept);
    printf("%.6f\n", (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - start) / 1e9);
    return sum == 0;
}

/* libc's own, by names that nothing stands in for. */
void *__libc_malloc(size_t bytes);
void __libc_free(void *memory);

enum { TURN = 200, MOST_TURNS = 20000 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double pair_ns(void *(*get)(size_t), void (*give)(void *))
{
    enum { KEPT = 16 };
    static void *kept[KEPT];
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < TURN * KEPT; i++) {
        give(kept[i % KEPT]);
        kept[i % KEPT] = get(16 + i % 7 * 16);
    }
    return (double)(now_ns(CLOCK_MONOTONIC) - start) / (TURN * KEPT);
}

static int compare_pairs(long turns)
{
    static double more[MOST_TURNS];
    turns = turns < MOST_TURNS ? turns : MOST_TURNS;
    for (long i = 0; i < turns; i++) {
        double before = pair_ns(__libc_malloc, __libc_free), ours = pair_ns(malloc, free);
        more[i] = ours - (before + pair_ns(__libc_malloc, __libc_free)) / 2;
    }
    qsort(more, (size_t)turns, sizeof *more, compare);
    printf("%.3f %.3f %.3f\n", more[turns / 4], more[turns / 2], more[turns * 3 / 4]);
    return 0;
}

/* --- calls that could wait --- */

static int zeros;

static void read_one(void)
{
    char byte;
    if (read(zeros, &byte, 1) != 1)
        exit(1);
}

static void poll_one(void)
{
    struct pollfd always = {.fd = zeros, .events = POLLIN};
    if (poll(&always, 1, 0) != 1)
        exit(1);
}

static void (*one_call)(void) = read_one;

__attribute__((noinline)) static void make_calls(long calls)
{
    for (long i = 0; i < calls; i++)
        one_call();
}

/* Two functions that do the same: a path through either, by the bits of a number, is a stack of its
 * own. */
typedef void path(int depth, unsigned way, long calls);
static path go_left, go_right;

#define GO(name, remark)                                                                           \
    __attribute__((noinline)) static void name(int depth, unsigned way, long calls)                \
    {                                                                                              \
        if (depth)                                                                                 \
            (way & 1 ? go_left : go_right)(depth - 1, way >> 1, calls);                            \
        else                                                                                       \
            make_calls(calls);                                                                     \
        __asm__ volatile("# " remark); /* no tail call, and no two names of one function */        \
    }

GO(go_left, "left")
GO(go_right, "right")

/* ns for each call; where stacks change, all but the outermost frame are others than before, of 64
 * stacks in turn. */
static double measure(int depth, bool moving)
{
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    if (!moving)
        go_left(depth, 0, TURN);
    for (unsigned i = 0; moving && i < TURN; i++)
        go_left(depth, (i * 37 & 63) | (i & 1 ? ~63u : 0), 1);
    return (double)(now_ns(CLOCK_MONOTONIC) - start) / TURN;
}

/* The median over the turns: whatever else runs on the machine disturbs few of them. */
static int call_often(long calls, int depth, bool pausing, bool moving)
{
    static double paused[MOST_TURNS], not_paused[MOST_TURNS];
    long turns = calls / TURN < MOST_TURNS ? calls / TURN : MOST_TURNS;
    for (long i = 0; i < turns; i++) {
        if (pausing)
            ct_pause();
        paused[i] = measure(depth, moving);
        if (pausing)
            ct_resume();
        not_paused[i] = measure(depth, moving);
    }
    qsort(paused, (size_t)turns, sizeof *paused, compare);
    qsort(not_paused, (size_t)turns, sizeof *not_paused, compare);
    printf("%.1f %.1f\n", paused[turns / 2], not_paused[turns / 2]);
    return 0;
}

int main(int argc, char **argv)
{
    zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (argc == 3 && strcmp(argv[1], "alloc") == 0)
        return allocate(atol(argv[2]));
    if (argc == 3 && strcmp(argv[1], "pair") == 0)
        return compare_pairs(atol(argv[2]));
    if (argc != 4)
        return 2;
    bool plain = strncmp(argv[1], "plain-", 6) == 0, moving = strncmp(argv[1], "moving-", 7) == 0;
    if (strstr(argv[1], "poll"))
        one_call = poll_one;
    return call_often(atol(argv[2]), atoi(argv[3]), !plain, moving);
}
