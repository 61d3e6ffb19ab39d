/* Row 24: entries where there is no room to change anything: branches into the first bytes of a
 * function, loops back to its entry, functions shorter than a jump, two entries three bytes apart,
 * calls that are no calls. In assembler; what each returns and how often it is called is known. */
#include "torture.h"

#define BEGIN(NAME) ".globl " #NAME "\n.type " #NAME ", @function\n" #NAME ":\n.cfi_startproc\n"
#define END(NAME)   ".cfi_endproc\n.size " #NAME ", . - " #NAME "\n"

__asm__(
    ".text\n"
    /* the loop is the function: its first instruction is a branch target */
    BEGIN(loops) " lea 3(%rsi,%rdi), %rsi\n dec %rdi\n jnz loops\n ret\n" END(loops)
    /* the first time by a detour; then back to the second instruction, two bytes in */
    BEGIN(enters_again) " xor %eax, %eax\n1: inc %rax\n dec %rdi\n jg 1b\n ret\n" END(enters_again)
    /* `loop` and `jrcxz` have no long form */
    BEGIN(old_loop) " mov %rdi, %rcx\n xor %eax, %eax\n jrcxz 2f\n"
                    "1: add $2, %rax\n loop 1b\n2: ret\n" END(old_loop)
    /* shorter than a jump, one after the other, nothing between */
    BEGIN(only_returns) " ret\n" END(only_returns)
        BEGIN(gives_zero) " xor %eax, %eax\n ret\n" END(gives_zero)
            BEGIN(gives_same) " mov %rdi, %rax\n ret\n" END(gives_same)
                BEGIN(also_returns) " ret\n" END(also_returns)
    /* short jumps to neighbours: a call each, in two and in three bytes */
    BEGIN(short_tail) " jmp gives_same\n" END(short_tail) BEGIN(
        short_maybe) " test %edi, %edi\n jnz gives_same\n xor %eax, %eax\n ret\n" END(short_maybe)
    /* nothing can be moved here, so what this jump leads to is not counted */
    BEGIN(count_tail) " mov %rdi, %rcx\n jrcxz count_zero\n jmp gives_other\n" END(count_tail)
        BEGIN(gives_other) " mov %rdi, %rax\n ret\n" END(gives_other)
            BEGIN(count_zero) " mov $77, %eax\n ret\n" END(count_zero)
    /* two entries, three bytes apart, in one function and as two */
    BEGIN(doubled) " add %rdi, %rdi\n.globl plain_entry\n.type plain_entry, @function\n"
                   "plain_entry: lea 1(%rdi), %rax\n ret\n" END(
                       doubled) ".size plain_entry, . - "
                                "plain_entry\n" BEGIN(first_of_two) " add %rdi, %rdi\n" END(
                                    first_of_two) BEGIN(second_of_two) " l"
                                                                       "ea"
                                                                       " 5"
                                                                       "(%"
                                                                       "rd"
                                                                       "i)"
                                                                       ", "
                                                                       "%r"
                                                                       "ax"
                                                                       "\n"
                                                                       " r"
                                                                       "et"
                                                                       "\n" END(second_of_two)
    /* into the middle of another function's first bytes */
    BEGIN(beside) " lea 4(%rdi), %rdi\n jmp gives_more + 4\n" END(beside)
        BEGIN(gives_more) " add $100, %rdi\n mov %rdi, %rax\n ret\n" END(gives_more)
    /* calls that are none: for the address of the next instruction, and to put one away */
    BEGIN(where_am_i) " call 1f\n1: pop %rax\n lea 1b(%rip), %rcx\n sub %rcx, %rax\n ret\n" END(
        where_am_i)
        BEGIN(thunk) " call 1f\n2: pause\n lfence\n jmp 2b\n1: mov %rsi, (%rsp)\n ret\n" END(thunk)
            BEGIN(pushed_return) " push %rsi\n.cfi_adjust_cfa_offset 8\n "
                                 "ret\n.cfi_adjust_cfa_offset -8\n" END(pushed_return)
    /* an indirect call of two bytes between two branch targets: nothing can move */
    BEGIN(tight) " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n"
                 " mov %rdi, %rbx\n jmp 1f\n1: call *%rsi\n2: dec %rbx\n jz 3f\n jmp 1b\n"
                 "3: pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n" END(tight)
    /* the same beside padding that is run, and beside a constant that looks like padding */
    BEGIN(run_padding) " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n"
                       " mov %rdi, %rbx\n jmp 1f\n2: .nops 16\n dec %rbx\n jz 3f\n1: call *%rsi\n "
                       "jmp 2b\n"
                       "3: pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n" END(run_padding)
                           BEGIN(constant_behind) " push %rbx\n.cfi_adjust_cfa_offset "
                                                  "8\n.cfi_offset %rbx, -16\n"
                                                  " mov %rdi, %rbx\n jmp 1f\n1: call *%rsi\n2: dec "
                                                  "%rbx\n jz 3f\n jmp 1b\n"
                                                  "3: pop %rbx\n.cfi_adjust_cfa_offset -8\n lea "
                                                  "padding_mask(%rip), %rax\n ret\n"
                                                  "padding_mask: .fill 16, 1, 0xcc\n.fill 16, 1, "
                                                  "0x90\n" END(constant_behind)
    /* a conditional jump over a call, and one to it */
    BEGIN(
        over_calls) " push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -16\n mov %rdi, %rbx\n"
                    "1: test $1, %bl\n jz 2f\n call gives_zero\n2: call gives_same\n dec %rbx\n "
                    "jnz 1b\n"
                    " pop %rbx\n.cfi_adjust_cfa_offset -8\n ret\n" END(over_calls));

long loops(long n), enters_again(long n), old_loop(long n), gives_zero(long n), gives_same(long n);
long short_tail(long n), short_maybe(int n), count_tail(long n), doubled(long n),
    plain_entry(long n);
long first_of_two(long n), second_of_two(long n), beside(long n), gives_more(long n),
    where_am_i(void);
long thunk(long n, long (*to)(long)), pushed_return(long n, long (*to)(long));
long tight(long n, long (*to)(long)), over_calls(long n), run_padding(long n, long (*to)(long));
const unsigned char *constant_behind(long n, long (*to)(long));
void only_returns(void), also_returns(void);

static long through_zero, through_same;

NOINLINE static long indirectly(long (*volatile to)(long), long n)
{
    return to(n);
}

NOINLINE static void round_of(long i)
{
    long n = i % 7 + 1;
    loops(n);
    CHECK(enters_again(n) == n);
    CHECK(old_loop(n) == 2 * n && old_loop(0) == 0);
    only_returns();
    also_returns();
    CHECK(gives_zero(i) == 0 && gives_same(i) == i && indirectly(gives_same, i) == i);
    CHECK(short_tail(i) == i && short_maybe((int)i) == i && short_maybe(0) == 0);
    CHECK(count_tail(i) == (i ? i : 77) && count_tail(0) == 77);
    CHECK(doubled(i) == 2 * i + 1 && plain_entry(i) == i + 1);
    CHECK(indirectly(doubled, i) == 2 * i + 1 && indirectly(plain_entry, i) == i + 1);
    CHECK(first_of_two(i) == 2 * i + 5 && second_of_two(i) == i + 5);
    CHECK(beside(i) == i + 4 && gives_more(i) == i + 100);
    CHECK(where_am_i() == 0);
    CHECK(thunk(i, gives_same) == i && pushed_return(i, gives_same) == i);
    tight(n, gives_zero);
    over_calls(n);
    run_padding(n, gives_zero);
    const unsigned char *mask = constant_behind(n, gives_zero);
    for (int k = 0; k < 32; k++)
        CHECK(mask[k] == (k < 16 ? 0xcc : 0x90));
    /* gives_same: called, through a pointer, by a tail, and by what is no call (not counted) */
    through_same += 3 + (i != 0) + n;
    through_zero += 1 + (n + 1) / 2 + 3 * n;
}

enum { ROUNDS = 20000 };

int main(void)
{
    for (long i = 0; i < ROUNDS; i++)
        round_of(i);
    printf("calls round_of %d\ncalls indirectly %d\n", ROUNDS, 3 * ROUNDS);
    printf("calls loops %d\ncalls enters_again %d\n", ROUNDS, ROUNDS);
    printf("calls old_loop %d\ncalls only_returns %d\ncalls also_returns %d\n", 2 * ROUNDS, ROUNDS,
           ROUNDS);
    printf("calls gives_same %ld\n", through_same);
    printf("calls short_tail %d\ncalls short_maybe %d\n", ROUNDS, 2 * ROUNDS);
    printf("calls count_tail %d\n", 2 * ROUNDS);
    printf("calls doubled|plain_entry %d\n", 4 * ROUNDS);
    printf("calls first_of_two %d\ncalls second_of_two %d\n", ROUNDS, ROUNDS);
    printf("calls beside %d\ncalls tight %d\n", ROUNDS, ROUNDS);
    printf("calls over_calls %d\ncalls run_padding %d\n", ROUNDS, ROUNDS);
    printf("calls constant_behind %d\n", ROUNDS);
    return torture_end();
}
