/*
 * Row 30: a program that has set one of the flags that C code does not expect. With AC an access to
 * memory that is not aligned is a fault; with TF every instruction ends in a signal, of which its
 * own handler counts some. It calls nothing of libc meanwhile.
 */
#include "torture.h"

#include <signal.h>

#define AC 0x40000
#define TF 0x100
#define CHANGE(operation, mask)                                                                    \
    __asm__ volatile("sub $128, %%rsp; pushf; " operation " %0, (%%rsp); popf; add $128, %%rsp"    \
                     :                                                                             \
                     : "i"(mask)                                                                   \
                     : "memory", "cc")

static volatile unsigned long steps;

static void on_step(int number)
{
    (void)number;
    steps++;
}

static NOINLINE unsigned long leaf(unsigned long x)
{
    __asm__ volatile("" : "+r"(x));
    return x * 3 + 1;
}

static NOINLINE unsigned long recursive(unsigned depth, unsigned long x)
{
    unsigned long found = depth ? recursive(depth - 1, leaf(x)) + 1 : leaf(x);
    __asm__ volatile("" : "+r"(found));
    return found;
}

static NOINLINE unsigned long work(unsigned rounds,
                                   unsigned long (*volatile indirect)(unsigned long))
{
    unsigned long sum = 1;
    for (unsigned i = 0; i < rounds; i++)
        sum ^= recursive(i & 15, sum + i) + indirect(i);
    return sum;
}

static NOINLINE unsigned long aligned_only(unsigned rounds)
{
    CHANGE("orl", AC);
    unsigned long sum = work(rounds, leaf);
    CHANGE("andl", ~AC);
    return sum;
}

static NOINLINE unsigned long single_stepped(unsigned rounds)
{
    CHANGE("orl", TF);
    unsigned long sum = work(rounds, leaf);
    CHANGE("andl", ~TF);
    return sum;
}

int main(void)
{
    unsigned long sum = 0;
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    for (unsigned i = 0; i < 20; i++)
        sum += aligned_only(100000);
    printf("%#lx\n", sum);
    unsigned long others = work(60, leaf);
    CHECK(single_stepped(60) == others);
    CHECK(steps > 1000);
    burn_ms(20);
    return torture_end();
}
