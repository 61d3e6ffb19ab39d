/*
 * Row 29: faults in instructions that an editor moves. The handler finds the address of the
 * instruction, and goes on behind it, at the next one, or at the same once more.
 */
#include "torture.h"

#include <ucontext.h>

/* The loads and the call are one group to an editor: the jump in their place covers all. */
__asm__(".text\n"
        ".globl group\n"
        ".type group, @function\n"
        "group:\n"
        "    .cfi_startproc\n"
        "    push %rbx\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    .cfi_rel_offset rbx, 0\n"
        "    mov %rdi, %rbx\n"
        "    xor %eax, %eax\n"
        "    mov (%rsi), %al\n"
        "    call *(%rbx)\n"
        "    pop %rbx\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size group, . - group\n");

typedef int function(void);

extern int group(function *const *target, const char *text);

/* By their distance: an editor leaves places alone that others know. */
enum { LOAD = 6, CALL = 8, AFTER = 10 };
static char *group_load, *group_call, *group_after;

static int at_load, at_call, elsewhere;
static int mends; /* the register, and the instruction runs again */
static function *const *target;

static void on_fault(int number, siginfo_t *info, void *data)
{
    greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
    char *at = (char *)registers[REG_RIP];
    (void)number;
    (void)info;
    at_load += at == group_load;
    at_call += at == group_call;
    elsewhere += at != group_load && at != group_call;
    if (mends && at == group_load)
        registers[REG_RSI] = (greg_t) "text";
    else if (mends)
        registers[REG_RBX] = (greg_t)target;
    else
        registers[REG_RIP] = at == group_load ? (greg_t)group_call : (greg_t)group_after;
}

static NOINLINE int called(void)
{
    return 7;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, old;
    function *const pointer = called;
    int sum = 0;
    target = &pointer;
    group_load = (char *)group + LOAD;
    group_call = (char *)group + CALL;
    group_after = (char *)group + AFTER;
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 1000; i++) {
        mends = i % 2;
        sum += group(target, "text");
        sum += group(target, NULL);
        group(NULL, "text");
        group(NULL, NULL);
    }
    printf("sum %d: faults %d %d %d\n", sum, at_load, at_call, elsewhere);
    sigaction(SIGSEGV, NULL, &old);
    CHECK(old.sa_sigaction == on_fault);
    CHECK(signal(SIGSEGV, SIG_DFL) == (void (*)(int))on_fault);
    return torture_end();
}
