/*
 * What is measured by bench/events.py. Each mode prints numbers that the program takes itself.
 *
 *     events alloc ROUNDS     builds and frees trees of small nodes and strings; CPU seconds
 *     events wait CALLS DEPTH calls that could wait, at some depth of the stack, with measuring
 * paused and not, in turn: ns for each call, of either events wait-plain CALLS DEPTH  the same,
 * without turns
 */
#include "calltrail.h"

#include <fcntl.h>
#include <poll.h>
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

/* --- memory ------------------------------------------------------------------------------------
 */

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

/* --- calls that could wait -----------------------------------------------------------------------
 */

static int zeros;

static uint64_t call(long calls)
{
    uint64_t start = now_ns(CLOCK_MONOTONIC);
    char byte;
    for (long i = 0; i < calls; i++)
        if (read(zeros, &byte, 1) != 1)
            exit(1);
    return now_ns(CLOCK_MONOTONIC) - start;
}

__attribute__((noinline)) static uint64_t call_at(int depth, long calls)
{
    uint64_t ns = depth ? call_at(depth - 1, calls) : call(calls);
    __asm__ volatile("" : "+r"(ns)); /* no tail call */
    return ns;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

enum { TURN = 200, MOST_TURNS = 20000 };

/* The median over the turns: whatever else runs on the machine disturbs few of them. */
static int wait_often(long calls, int depth, int in_turns)
{
    static double paused[MOST_TURNS], not_paused[MOST_TURNS];
    long turns = calls / TURN < MOST_TURNS ? calls / TURN : MOST_TURNS;
    for (long i = 0; i < turns; i++) {
        if (in_turns)
            ct_pause();
        paused[i] = (double)call_at(depth, TURN) / TURN;
        if (in_turns)
            ct_resume();
        not_paused[i] = (double)call_at(depth, TURN) / TURN;
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
    if (argc == 4 && strncmp(argv[1], "wait", 4) == 0)
        return wait_often(atol(argv[2]), atoi(argv[3]), !argv[1][4]);
    return 2;
}
