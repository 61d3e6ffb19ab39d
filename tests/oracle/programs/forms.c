/* Calls the assembly in forms_asm.S: functions with right unwind information in unusual forms. */
#include "checksum.h"

typedef uint64_t (*callback)(uint64_t);

uint64_t form_cfa_rbx(callback f, uint64_t x);
uint64_t form_cfa_r12(callback f, uint64_t x);
uint64_t form_cfa_r13(callback f, uint64_t x);
uint64_t form_cfa_r14(callback f, uint64_t x);
uint64_t form_cfa_r15(callback f, uint64_t x);
uint64_t form_cfa_rax(uint64_t x);
uint64_t form_cfa_r10(uint64_t x);
uint64_t form_cfa_memory(callback f, uint64_t x);
uint64_t form_cfa_indexed(callback f, uint64_t x);
uint64_t form_far_saves(callback f, uint64_t x);
uint64_t form_saved_expression(callback f, uint64_t x);
uint64_t form_red_zone_saves(uint64_t x);
uint64_t form_rbp_in_register(uint64_t x);
uint64_t form_rbp_general(callback f, uint64_t x);
uint64_t form_return_in_register(uint64_t x);
uint64_t form_read_pc(uint64_t x);
uint64_t form_push_return(uint64_t x);
uint64_t form_pops_arguments(callback f, uint64_t x);
uint64_t form_two_exits(callback f, uint64_t x);
uint64_t form_temporary_pushes(callback f, uint64_t x);
uint64_t form_switches_frame(callback f, uint64_t x);

/* Uses all registers that a callee has to save, so that the walker must find them again. */
NOINLINE static uint64_t clobber(uint64_t x)
{
    __asm__ volatile(
        "xor %%ebx, %%ebx; mov $1, %%r12d; mov $2, %%r13d; mov $3, %%r14d; mov $4, %%r15d"
        :
        :
        : "rbx", "r12", "r13", "r14", "r15", "memory");
    return x * 3 + 1;
}

static unsigned depth;

NOINLINE static uint64_t again(uint64_t x);

static const callback plain[] = {form_cfa_rax,
                                 form_cfa_r10,
                                 form_red_zone_saves,
                                 form_rbp_in_register,
                                 form_return_in_register,
                                 form_read_pc,
                                 form_push_return,
                                 clobber};

static uint64_t (*const calling[])(callback, uint64_t) = {
    form_cfa_rbx,          form_cfa_r12,       form_cfa_r13,        form_cfa_r14,
    form_cfa_r15,          form_cfa_memory,    form_cfa_indexed,    form_far_saves,
    form_saved_expression, form_rbp_general,   form_pops_arguments, form_two_exits,
    form_temporary_pushes, form_switches_frame};

enum {
    PLAIN_COUNT = sizeof plain / sizeof *plain,
    CALLING_COUNT = sizeof calling / sizeof *calling
};

/* Through the next form, so that one form's frame lies below another's. */
NOINLINE static uint64_t again(uint64_t x)
{
    if (depth == 0)
        return clobber(x);
    depth--;
    return calling[x % CALLING_COUNT](again, x * 5 + 3) ^ clobber(x);
}

int main(void)
{
    for (uint64_t x = 0; x < 3; x++) {
        for (unsigned i = 0; i < PLAIN_COUNT; i++)
            check(plain[i](x + i));
        for (unsigned i = 0; i < CALLING_COUNT; i++) {
            check(calling[i](clobber, x));
            depth = 4;
            check(calling[i](again, x * 7 + i));
        }
    }
    return print_checksum("forms");
}
