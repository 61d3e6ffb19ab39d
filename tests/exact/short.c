/* Runs the functions of short.S, and says what they return. */
#include <stdio.h>

typedef long function(long a, long b);

long call_first(function *f, long a), jump_first(function *f, long a), behind_jump(void);
long loop_call(function *f, int times), back_to_back(function *f, int times, int both);
long loop_r12(function *f, int times), loop_memory(function *const *functions, int times);
long loop_stack(function *f, int times), before_direct(function *f, int times);
int short_first(int n), short_if(int n, int b, int c, long condition), short_with_test(int n);
long jump_r11(function *f, long n), stays_or_leaves(long which, long value);
long stays_or_leaves_short(long which, long value);
int roomy_call(function *f, int times), crowded_call(function *f, int times);
long add_value(long a, long b);

static volatile long sum;

__attribute__((noinline)) static void leaf(void)
{
    sum += 3;
}

__attribute__((noinline)) static long tick(long a, long b)
{
    sum += 1 + (a & 1) * 0 + (b & 1) * 0;
    leaf();
    return sum & 0xff;
}

__attribute__((noinline)) static long tock(long a, long b)
{
    sum += 2 + (a & 1) * 0 + (b & 1) * 0;
    return sum & 0xff;
}

__attribute__((noinline)) long add_value(long a, long b)
{
    sum += b;
    leaf();
    return a + b;
}

int main(void)
{
    static function *const functions[] = {tick, tock};
    for (int i = 0; i < 1000; i++) {
        function *f = functions[i % 3 == 0];
        call_first(f, i);
        jump_first(f, i);
        loop_call(f, 1 + i % 5);
        back_to_back(f, 1 + i % 4, i & 1);
        loop_r12(f, 1 + i % 3);
        loop_memory(functions, 1 + i % 3);
        loop_stack(f, 1 + i % 2);
        before_direct(f, 1 + i % 3);
        sum += short_first(i) + short_if(i, 0, 0, i % 4) + short_with_test(i % 5);
        jump_r11(f, i % 3);
        sum += stays_or_leaves(i % 4, i) + stays_or_leaves_short(i % 2, i);
        sum += (roomy_call(f, 1 + i % 7) & 0xffff) + (crowded_call(f, 1 + i % 3) & 0xff);
    }
    printf("%ld\n", sum);
    return 0;
}
