/*
 * Row 50: thread pointers that libc knows nothing of. A program that sets its own for a while, to
 * memory of its own and to nowhere; threads made without libc, with a thread pointer of their own
 * or with that of the thread that made them.
 */
#include "torture.h"

#include <asm/prctl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { STACK_BYTES = 64 * 1024, ROUNDS = 400 };

static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/* What runs here uses nothing of libc's. */
static NOINLINE unsigned with_own_pointer(void)
{
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; i++)
        sum += spin(20000);
    return sum;
}

static void set_by_call(const char *what, uint64_t base)
{
    uint64_t before = 0;
    call6(SYS_arch_prctl, ARCH_GET_FS, (long)&before, 0, 0, 0, 0);
    call6(SYS_arch_prctl, ARCH_SET_FS, (long)base, 0, 0, 0, 0);
    unsigned sum = with_own_pointer();
    call6(SYS_arch_prctl, ARCH_SET_FS, (long)before, 0, 0, 0, 0);
    printf("%s: %u\n", what, sum);
}

static __attribute__((target("fsgsbase"))) void set_by_instruction(uint64_t base)
{
    uint64_t before = 0;
    unsigned sum;
    if (getauxval(AT_HWCAP2) & 2) {
        __asm__ volatile("rdfsbase %0" : "=r"(before));
        __asm__ volatile("wrfsbase %0" : : "r"(base));
        sum = with_own_pointer();
        __asm__ volatile("wrfsbase %0" : : "r"(before));
    } else {
        sum = with_own_pointer();
    }
    printf("by instruction: %u\n", sum);
}

static unsigned result;

static void body(void)
{
    result = with_own_pointer();
    call6(SYS_exit, 0, 0, 0, 0, 0, 0);
}

/* clone, whose child begins in body() on another stack. */
static void make_thread(const char *what, uint64_t tls)
{
    static uint32_t tid;
    char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void **top = (void **)(stack + STACK_BYTES);
    *--top = NULL;
    long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                 CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | (tls ? CLONE_SETTLS : 0);
    register long r10 __asm__("r10") = (long)&tid;
    register long r8 __asm__("r8") = (long)tls;
    long made;
    result = 0;
    __asm__ volatile("syscall\n"
                     "test %%rax, %%rax\n"
                     "jnz 1f\n"
                     "xor %%ebp, %%ebp\n"
                     "call *%[body]\n"
                     "1:"
                     : "=a"(made)
                     : "a"(SYS_clone), "D"(flags), "S"(top), "d"(&tid), "r"(r10),
                       "r"(r8), [body] "r"((void *)body)
                     : "rcx", "r11", "memory");
    CHECK(made > 0);
    burn_ms(30); /* both at a time */
    uint32_t is;
    while ((is = __atomic_load_n(&tid, __ATOMIC_ACQUIRE)))
        call6(SYS_futex, (long)&tid, FUTEX_WAIT, is, 0, 0, 0);
    printf("%s: %u\n", what, result);
}

int main(void)
{
    static uint64_t own[512];
    own[0] = own[2] = (uint64_t)own;
    burn_ms(20);
    set_by_call("own memory", (uint64_t)own);
    set_by_call("nowhere", 0x10000);
    set_by_instruction((uint64_t)own);
    set_by_instruction(0);
    make_thread("thread with its own", (uint64_t)own);
    make_thread("thread with another's", 0);
    burn_ms(20);
    return torture_end();
}
