/* Row 33: frames whose size is not known before they are made: alloca, arrays of variable length,
 * frames that are aligned at run time, all of them in recursion; and, when built so, a stack in
 * pieces (-fsplit-stack). */
#include "truth.h"

#include <alloca.h>
#include <pthread.h>

static volatile long sink;

NOINLINE static long leaf(long n)
{
    TRUTH();
    sink += n;
    return n & 15;
}

NOINLINE static long with_alloca(int depth, unsigned size)
{
    TRUTH();
    long sum = leaf(depth);
    char *room = alloca(size);
    memset(room, depth, size);
    sum += leaf(room[size / 2]);
    for (int i = 0; i < 3; i++) {
        volatile char *more = alloca(17 * (unsigned)i + 1);
        more[0] = (char)leaf(i);
    }
    return depth ? sum + with_alloca(depth - 1, size * 3 % 977 + 1) + leaf(1) : sum;
}

NOINLINE static long with_array(int depth, int size)
{
    TRUTH();
    long sum = 0;
    for (int i = 1; i < 4; i++) { /* it comes and goes in each turn */
        volatile int array[size * i];
        array[size * i - 1] = (int)leaf(i);
        sum += array[size * i - 1] + leaf(size);
    }
    return depth ? sum + with_array(depth - 1, size * 7 % 61 + 1) : sum;
}

/* and $-64, %rsp: where the return address lies is known from the frame pointer alone. */
NOINLINE static long aligned(int depth)
{
    TRUTH();
    _Alignas(64) volatile char room[128];
    CHECK(((uintptr_t)room & 63) == 0);
    room[5] = (char)leaf(depth);
    return room[5] + (depth ? aligned(depth - 1) + leaf(2) : 0);
}

NOINLINE static long aligned_with_alloca(int depth, int a, int b, int c, int d, int e, int f, int g)
{
    TRUTH();
    _Alignas(128) volatile char room[256];
    CHECK(((uintptr_t)room & 127) == 0 && g == 7);
    volatile char *more = alloca((unsigned)(depth * 40 + 8));
    more[3] = room[8] = (char)leaf(a + b + c + d + e + f);
    if (depth)
        return aligned_with_alloca(depth - 1, a, b, c, d, e, f, g) + with_array(1, depth) + more[3];
    return with_alloca(2, 100) + aligned(1);
}

/* The kernel may have left the stack at any multiple of 16; some code may leave it at one of 8. */
__attribute__((force_align_arg_pointer)) NOINLINE long realigned(int depth)
{
    TRUTH();
    volatile __attribute__((vector_size(16))) int v = {depth, 1};
    return leaf(v[0]) + (depth ? realigned(depth - 1) : aligned(1));
}

long from_unaligned(int depth);
__asm__(
    ".globl from_unaligned\n.type from_unaligned, @function\nfrom_unaligned:\n.cfi_startproc\n"
    " sub $16, %rsp\n.cfi_adjust_cfa_offset 16\n call realigned\n add $16, %rsp\n"
    ".cfi_adjust_cfa_offset -16\n ret\n.cfi_endproc\n.size from_unaligned, . - from_unaligned\n");

NOINLINE static long all(int turn)
{
    TRUTH();
    return with_alloca(8, (unsigned)turn % 300 + 1) + with_array(6, turn % 40 + 1) + aligned(6) +
           aligned_with_alloca(5, 1, 2, 3, 4, 5, 6, 7) + from_unaligned(2);
}

/* Deeper than a piece of the stack is large. */
NOINLINE static long grows(int depth)
{
    volatile char room[500];
    room[depth % 500] = (char)depth;
    return depth ? grows(depth - 1) + room[depth % 500] % 2 : 0;
}

NOINLINE static long many_times(void)
{
    TRUTH();
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += all(i);
    for (int i = 0; i < 30; i++)
        sum += grows(2000) & 1;
    return sum;
}

NOINLINE static void *in_thread(void *argument)
{
    TRUTH_OF_THREAD();
    *(long *)argument = many_times();
    return argument;
}

int main(void)
{
    TRUTH();
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    long sums[THREADS + 1];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, in_thread, &sums[i]);
    sums[THREADS] = many_times();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        CHECK(sums[i] == sums[THREADS]);
    printf("%ld\ncalls grows %d\n", sums[THREADS], (THREADS + 1) * 30 * 2001);
    truth_print();
    return torture_end();
}
