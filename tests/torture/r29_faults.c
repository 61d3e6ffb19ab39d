/*
 * Row 29: faults in instructions that an editor moves. The handler finds the address of the
 * instruction, and goes on behind it, at the next one, or at the same once more; with what its
 * action says blocked, and on an alternate stack, too.
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

static char stack[64 * 1024];
static int at_load, at_call, elsewhere, on_stack, in_mask;
static int mends; /* the register, and the instruction runs again */
static function *const *target;

static void on_fault(int number, siginfo_t *info, void *data)
{
    greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
    char *at = (char *)registers[REG_RIP], here;
    sigset_t mask;
    (void)info;
    sigprocmask(SIG_SETMASK, NULL, &mask);
    for (int i = 1; i < 64; i++)
        in_mask += sigismember(&mask, i) == 1;
    CHECK(sigismember(&mask, number) == 1);
    on_stack += &here > stack && &here < stack + sizeof stack;
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

/* An action as it is set is what is told of it, and what is in force. */
static void all_faults(const char *when, int flags, int blocked)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags}, old;
    int sum = 0;
    sigaddset(&action.sa_mask, blocked);
    sigaction(SIGSEGV, &action, NULL);
    at_load = at_call = elsewhere = on_stack = in_mask = 0;
    for (int i = 0; i < 1000; i++) {
        mends = i % 2;
        sum += group(target, "text");
        sum += group(target, NULL);
        group(NULL, "text");
        group(NULL, NULL);
    }
    printf("%s: sum %d, faults %d %d %d, on the stack %d, in masks %d\n", when, sum, at_load,
           at_call, elsewhere, on_stack, in_mask);
    sigaction(SIGSEGV, NULL, &old);
    CHECK(old.sa_sigaction == on_fault && (old.sa_flags & (SA_SIGINFO | SA_ONSTACK)) ==
                                              (action.sa_flags & (SA_SIGINFO | SA_ONSTACK)));
    for (int i = 1; i < 64; i++)
        CHECK(sigismember(&old.sa_mask, i) == (i == blocked));
}

int main(void)
{
    function *const pointer = called;
    target = &pointer;
    group_load = (char *)group + LOAD;
    group_call = (char *)group + CALL;
    group_after = (char *)group + AFTER;
    all_faults("on the thread's stack", 0, SIGUSR1);
    all_faults("without an alternate stack", SA_ONSTACK, SIGUSR2);
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    all_faults("on an alternate stack", SA_ONSTACK, SIGURG);
    all_faults("beside it", 0, SIGALRM);
    CHECK(signal(SIGSEGV, SIG_DFL) == (void (*)(int))on_fault);
    return torture_end();
}
