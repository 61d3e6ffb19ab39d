/* Row 47: a function and its cold part, in other sections and far away; calls from both, jumps
 * there and back in the middle of a frame, and a tail call from the cold part: one function, each
 * call counted once, in the right context. */
#include "truth.h"

static volatile long sink;

NOINLINE static long leaf(long n)
{
    TRUTH();
    sink += n;
    return n + 1;
}

__attribute__((cold)) NOINLINE static long report(long n)
{
    TRUTH();
    return leaf(n) * 2;
}

/* The cold part calls and comes back. */
NOINLINE static long comes_back(long n)
{
    TRUTH();
    long sum = leaf(n);
    if (__builtin_expect(n % 3 == 0, 0)) {
        sum += report(n);
        for (long i = 0; i < n % 4; i++)
            sum += report(i) + leaf(i);
    }
    return sum + leaf(sum & 15);
}

/* The cold part of one function calls another that has one. */
NOINLINE static long nests(long n, int depth)
{
    TRUTH();
    if (__builtin_expect((n ^ depth) % 2 == 0, 0)) {
        long sum = report(n) + comes_back(n);
        return depth ? sum + nests(n + 1, depth - 1) : sum;
    }
    return depth ? nests(n, depth - 1) + 1 : leaf(n);
}

/* By hand, for what compilers do rarely: the part has FDEs of its own, is entered from one function
 * only, both at once and with the frame set up, calls, comes back, and ends in a tail call. */
long by_hand(long n), hot_callee(long n), cold_callee(long n);

__asm__(".text\n"
        ".globl hot_callee\n.type hot_callee, @function\nhot_callee:\n.cfi_startproc\n lea "
        "1(%rdi), %rax\n ret\n"
        ".cfi_endproc\n.size hot_callee, . - hot_callee\n"
        ".globl cold_callee\n.type cold_callee, @function\ncold_callee:\n.cfi_startproc\n lea "
        "2(%rdi), %rax\n ret\n"
        ".cfi_endproc\n.size cold_callee, . - cold_callee\n"
        ".globl by_hand\n.type by_hand, @function\nby_hand:\n.cfi_startproc\n"
        " test %rdi, %rdi\n jz by_hand.cold\n" /* at once */
        " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n mov %rdi, %rbx\n"
        " test $1, %dil\n jnz by_hand.cold.1\n" /* with the frame set up */
        "1: call hot_callee\n add %rbx, %rax\n pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n"
        ".cfi_endproc\n.size by_hand, . - by_hand\n"
        ".section .text.unlikely,\"ax\",@progbits\n"
        ".type by_hand.cold, @function\nby_hand.cold:\n.cfi_startproc\n"
        " mov $40, %edi\n jmp cold_callee\n"
        ".cfi_def_cfa_offset 16\n.cfi_offset %rbx, -16\n"
        "by_hand.cold.1: call cold_callee\n mov %rax, %rdi\n jmp 1b\n"
        ".cfi_endproc\n.size by_hand.cold, . - by_hand.cold\n.text\n");

int main(void)
{
    TRUTH();
    enum { ROUNDS = 3000 };
    long sum = 0, hot = 0, cold = 0;
    for (long i = 0; i < ROUNDS; i++) {
        sum += comes_back(i) + nests(i, 6);
        long n = i % 5;
        CHECK(by_hand(n) == (n == 0 ? 42 : n & 1 ? n + 2 + 1 + n : n + 1 + n));
        hot += n != 0;
        cold += n == 0 || (n & 1);
    }
    printf("%ld\ncalls by_hand %d\ncalls hot_callee %ld\ncalls cold_callee %ld\n", sum, ROUNDS, hot,
           cold);
    truth_print();
    return torture_end();
}
