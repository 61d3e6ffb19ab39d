/* Row 25: jump tables (as the compiler makes them for this way of linking), computed goto, tables
 * and constants inside the code, some of which look like calls: all of it works, the constants are
 * as they were, and every call is counted. */
#include "truth.h"

static volatile long sink;

NOINLINE static long add(long n)
{
    TRUTH();
    sink += n;
    return n + 1;
}

NOINLINE static long twist(long n)
{
    TRUTH();
    return add(n ^ 5) ^ 3;
}

/* Calls in the cases, and tail calls. */
NOINLINE static long by_table(unsigned what, long n)
{
    TRUTH();
    switch (what) {
    case 0:
        return add(n);
    case 1:
        return twist(n) + 4;
    case 2:
        sink--;
        return n;
    case 3:
        n = add(n) * 3; /* falls through */
    case 4:
        return n - twist(n);
    case 5:
        return add(add(n));
    case 6:
        return sink & 3;
    case 7:
        return twist(twist(n));
    case 9:
        return n * 7;
    case 12:
        return add(n) - add(n + 1);
    default:
        return -1;
    }
}

/* An interpreter: the next label comes from a table of addresses. */
NOINLINE static long interpret(const unsigned char *code, long n)
{
    TRUTH();
    static const void *const labels[] = {&&stop, &&inc, &&call, &&both, &&skip, &&table};
    goto *labels[*code];
inc:
    n++;
    goto *labels[*++code];
call:
    n = add(n) & 0xffff;
    goto *labels[*++code];
both:
    n += twist(n) + add(1);
    goto *labels[*++code];
skip:
    code += n & 1;
    goto *labels[*++code];
table:
    n = by_table((unsigned)n % 13, n) & 0xfffff;
    goto *labels[*++code];
stop:
    return n;
}

#define BEGIN(NAME) ".globl " #NAME "\n.type " #NAME ", @function\n" #NAME ":\n.cfi_startproc\n"
#define END(NAME)   ".cfi_endproc\n.size " #NAME ", . - " #NAME "\n"

__asm__(
    ".text\n" BEGIN(answers) " lea 1(%rdi), %rax\n ret\n" END(answers)
    /* a table of distances inside the function, behind a jump: no decoder gets through it, so the
     * function is left alone, and its calls are not counted */
    BEGIN(
        own_table) " and $3, %edi\n lea 1f(%rip), %rax\n movslq (%rax,%rdi,4), %rcx\n"
                   " add %rax, %rcx\n jmp *%rcx\n .balign 4\n1: .long 2f-1b, 3f-1b, 4f-1b, 5f-1b\n"
                   "2: mov $10, %edi\n jmp answers\n3: mov $20, %eax\n ret\n"
                   "4: sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n mov $30, %edi\n call answers\n"
                   " add $8, %rsp\n.cfi_adjust_cfa_offset -8\n ret\n5: mov $40, %eax\n ret\n" END(
                       own_table)
    /* constants that look like calls of `answers`, inside a function, and between two */
    BEGIN(constants) " lea 1f(%rip), %rax\n jmp 2f\n.globl inside\n"
                     "inside: 1: .byte 0xe8\n .long answers - . - 4\n .byte 0xe9\n .long answers - "
                     ". - 4\n"
                     " .byte 0xff, 0xd0, 0x0f, 0x84\n .long answers - . - 4\n .byte 0xeb, 0\n2: "
                     "ret\n" END(constants) ".globl outside\n.balign 16\noutside: .byte 0xe8\n "
                                            ".long answers - . - 4\n .byte 0xff, 0x15\n"
                                            " .long answers - . - 4\n .byte 0xe8, 1, 2, 3, "
                                            "4\n.globl outside_end\noutside_end:\n"
    /* behind the last return, but within the function's size */
    BEGIN(behind) " mov $3, %eax\n ret\n.globl tail_data\ntail_data: .byte 0xe8\n .long answers - "
                  ". - 4\n"
                  " .byte 0xff, 0xe0, 0xe9\n .long answers - . - 4\n" END(behind));

long answers(long n), own_table(int n), behind(void);
const unsigned char *constants(void);
extern __attribute__((visibility("hidden"))) const unsigned char inside[], outside[], outside_end[],
    tail_data[];

/* Bytes of the code segment, with the distance to `answers` put back in, so that they are the same
 * wherever the linker puts them. */
static unsigned sum_of(const unsigned char *data, int bytes, const int *distances)
{
    unsigned char copy[64];
    memcpy(copy, data, (size_t)bytes);
    for (; *distances >= 0; distances++) {
        int value;
        memcpy(&value, copy + *distances, 4);
        value += (int)(data + *distances + 4 - (const unsigned char *)answers);
        memcpy(copy + *distances, &value, 4);
    }
    unsigned sum = 0;
    for (int i = 0; i < bytes; i++)
        sum = sum * 31 + copy[i];
    return sum;
}

static void look_at_constants(void)
{
    CHECK(constants() == inside);
    printf("inside %x\n", sum_of(inside, 20, (int[]){1, 6, 14, -1}));
    printf("outside %x\n", sum_of(outside, (int)(outside_end - outside), (int[]){1, 7, -1}));
    printf("behind %x\n", sum_of(tail_data, 12, (int[]){1, 8, -1}));
}

int main(void)
{
    TRUTH();
    static const unsigned char code[] = {1, 2, 3, 4, 5, 1, 5, 2, 4, 3, 5, 1, 4, 5, 5, 0, 0};
    long sum = 0;
    look_at_constants();
    for (int i = 0; i < 20000; i++) {
        sum += interpret(code, i) + by_table((unsigned)i % 14, i);
        long want[] = {11, 20, 31, 40};
        CHECK(own_table(i) == want[i & 3]);
        CHECK(behind() == 3);
    }
    look_at_constants();
    printf("%ld\ncalls own_table 20000\ncalls behind 20000\ncalls constants 2\n", sum);
    truth_print();
    return torture_end();
}
