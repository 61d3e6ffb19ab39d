/* Calls of every kind that C has; what it does is the same in every run. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT __attribute__((noinline, noclone))

static volatile int sink;
static unsigned seed = 12345;

OUT static unsigned next_random(void)
{
    return (seed = seed * 1664525u + 1013904223u) >> 8;
}

/* recursion, direct and mutual */
OUT static int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
OUT static int is_odd(int n);
OUT static int is_even(int n)
{
    return n == 0 ? 1 : is_odd(n - 1);
}
OUT static int is_odd(int n)
{
    return n == 0 ? 0 : is_even(n - 1);
}

/* tail calls: always, on a condition, through a pointer */
OUT static int leaf(int x)
{
    sink += x;
    return x + 1;
}
OUT static int tail(int x)
{
    sink++;
    return leaf(x * 2);
}
OUT static int maybe_tail(int x)
{
    if (x & 1)
        return tail(x);
    sink--;
    return x;
}
OUT static int tail_through(int (*f)(int), int x)
{
    sink ^= x;
    return f(x);
}

/* function pointers in a table */
OUT static int twice(int x)
{
    return leaf(x) + leaf(x + 1);
}
static int (*const table[])(int) = {leaf, tail, maybe_tail, twice, fibonacci};
OUT static int through_table(unsigned i, int x)
{
    return table[i % 5](x % 8) + 1;
}

/* many arguments: the caller pushes them after other calls have returned */
OUT static long many(int a, int b, int c, int d, int e, int f, int g, int h, long i, char j)
{
    return a + b + c + d + e + f + g + h + i + j + leaf(g);
}
OUT static long push_and_call(int n)
{
    long sum = leaf(n) + leaf(n + 1);
    sum += many(n, 1, 2, 3, 4, 5, leaf(n), leaf(7), sum, 9);
    return n ? sum + push_and_call(n - 1) : sum;
}

/* alloca between calls */
OUT static int with_alloca(int n)
{
    int sum = leaf(n);
    char *room = alloca((size_t)n * 16 + 8);
    memset(room, n, (size_t)n * 16 + 8);
    sum += leaf(room[n]);
    if (n)
        sum += with_alloca(n - 1);
    char *more = alloca(next_random() % 200 + 1);
    more[0] = (char)sum;
    return sum + leaf(more[0]);
}

/* callbacks from libc */
OUT static int compare(const void *a, const void *b)
{
    return leaf(*(const int *)a) - leaf(*(const int *)b);
}
OUT static void sort(void)
{
    int numbers[100];
    for (int i = 0; i < 100; i++)
        numbers[i] = (int)(next_random() % 1000);
    qsort(numbers, 100, sizeof numbers[0], compare);
    int key = 500;
    sink += bsearch(&key, numbers, 100, sizeof numbers[0], compare) != NULL;
}

/* longjmp over frames, then the stack grows again over the same place */
static jmp_buf back;
OUT static int deeper(int n)
{
    leaf(n);
    if (n == 0)
        longjmp(back, 1);
    return deeper(n - 1) + 1;
}
OUT static int jump(int n)
{
    if (setjmp(back) == 0)
        return deeper(n);
    return leaf(n) + tail(n);
}

/* variadic, structures by value, realigned frames */
OUT static int sum_of(int n, ...)
{
    va_list list;
    int sum = 0;
    va_start(list, n);
    while (n--)
        sum += leaf(va_arg(list, int));
    va_end(list);
    return sum;
}
struct big {
    long a[20];
};
OUT static struct big change(struct big b)
{
    b.a[3] += leaf((int)b.a[4]);
    return b;
}
OUT static int aligned(int n)
{
    int numbers[16] __attribute__((aligned(64)));
    for (int i = 0; i < 16; i++)
        numbers[i] = leaf(n + i);
    return numbers[n % 16] + (n ? aligned(n - 1) : 0);
}

/* a switch, and a part that is never run */
OUT static int choose(int x)
{
    switch (x % 9) {
    case 0:
        return leaf(1);
    case 1:
        return tail(2);
    case 2:
        return twice(3);
    case 3:
        return maybe_tail(4);
    case 4:
        return leaf(leaf(5));
    case 5:
        return tail(tail(6));
    case 6:
        return 7;
    case 7:
        return fibonacci(3);
    }
    if (__builtin_expect(x > 1000000, 0)) {
        fprintf(stderr, "%d\n", leaf(x));
        abort();
    }
    return maybe_tail(x);
}

OUT static void at_end(void)
{
    sink += leaf(3);
}

int main(void)
{
    long sum = 0;
    atexit(at_end);
    sum += fibonacci(15) + is_even(1001) + is_odd(77);
    for (int i = 0; i < 500; i++) {
        sum += maybe_tail(i) + tail_through(table[i % 4], i) + through_table(next_random(), i);
        sum += choose(i);
    }
    sum += push_and_call(30) + with_alloca(25) + aligned(20);
    sort();
    for (int i = 0; i < 10; i++)
        sum += jump(i);
    sum += sum_of(5, 1, 2, 3, 4, 5);
    struct big b = {{1, 2, 3, 4, 5}};
    sum += change(change(b)).a[3];
    printf("%ld %d\n", sum, sink);
    return 0;
}
