/* Row 46: after a call has returned, the caller pushes arguments, or makes room with alloca, or
 * both, in recursion, and calls again: the new frames lie where those of the first callee lay, or
 * above them. The contexts are compared with what the program counted itself. */
#include "truth.h"

#include <alloca.h>

static volatile long sink;
static unsigned seed = 1;

static inline unsigned next(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 10) % below;
}

NOINLINE static long leaf(long n)
{
    TRUTH();
    sink += n;
    return n & 7;
}

/* With a frame of so many bytes. */
#define FRAMED(NAME, BYTES)                                                                        \
    NOINLINE static long NAME(long n)                                                              \
    {                                                                                              \
        TRUTH();                                                                                   \
        volatile char room[BYTES];                                                                 \
        room[n & 7] = (char)n;                                                                     \
        return leaf(n) + room[n & 7];                                                              \
    }
FRAMED(small, 8)
FRAMED(middle, 120)
FRAMED(large, 3000)

NOINLINE static long nine(long a, long b, long c, long d, long e, long f, long g, long h, long i)
{
    TRUTH();
    CHECK(b == 2 && g == 7 && h == 8);
    return a + leaf(c + d + e + f + i);
}

NOINLINE static long twelve(long a, long b, long c, long d, long e, long f, long g, long h, long i,
                            long j, long k, long l)
{
    TRUTH();
    CHECK(b == 2 && h == 8 && l == 12);
    return nine(a, 2, c, d, e, f, 7, 8, i) + small(j + k + g);
}

NOINLINE static long pushes(int depth)
{
    TRUTH();
    long sum = small(depth) + middle(depth);
    sum += nine(sum & 3, 2, 3, 4, 5, 6, 7, 8, large(1));
    sum += twelve(leaf(1), 2, small(3), 4, 5, 6, 7, 8, 9, 10, middle(11), 12);
    if (depth)
        sum += nine(pushes(depth - 1) & 7, 2, 3, 4, 5, 6, 7, 8, leaf(9));
    return sum + small(0);
}

NOINLINE static long makes_room(int depth)
{
    TRUTH();
    long sum = large(depth);
    for (int i = 0; i < 4; i++) {
        char *room = alloca(16 + next(600));
        memset(room, depth, 16);
        sum += middle(i) + room[next(16)];
        char *more = alloca(8u << next(6));
        more[0] = (char)small(i);
        sum += more[0];
    }
    return depth ? sum + makes_room(depth - 1) : sum;
}

NOINLINE static long both(int depth, int turn);

static long (*volatile through)(int, int) = both;

NOINLINE static long both(int depth, int turn)
{
    TRUTH();
    long sum = small(depth);
    char *room = alloca(8 + next(2000));
    room[0] = (char)large(turn);
    sum += nine(1, 2, leaf(3), 4, 5, 6, 7, 8, room[0]);
    if (turn & 1) {
        char more[1 + next(300)];
        more[0] = (char)middle(2);
        sum += twelve(1, 2, 3, 4, 5, 6, 7, 8, leaf(9), more[0], 11, 12);
    }
    if (depth)
        sum += through(depth - 1, turn + 1) + both(depth - 1, (turn >> 1) + 1);
    return sum + leaf(0);
}

int main(void)
{
    TRUTH();
    long sum = 0;
    for (int i = 0; i < 60; i++)
        sum += pushes(12) + makes_room(12);
    for (int i = 0; i < 12; i++)
        sum += both(7, i);
    printf("%ld\n", sum);
    truth_print();
    return torture_end();
}
