/* Filters for system calls: the answer here is the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <errno.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/filter.h"

#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIELD(name)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, name))
#define RETURN(answer) BPF_STMT(BPF_RET | BPF_K, answer)
#define COUNT(array)   (sizeof(array) / sizeof(array)[0])

enum { OTHER = SYS_getpriority, A = 0x1234, ERRNO_7 = SECCOMP_RET_ERRNO | 7 };

/* What getpriority(A, B) returns in a process that has installed the filter: an errno, or 0. */
static int kernel_says(struct sock_filter *program, size_t count, long b)
{
    struct sock_fprog filter = {(unsigned short)count, program};
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
            _exit(99);
        _exit(syscall(OTHER, A, b) < 0 && errno == 7 ? 7 : 0);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100;
}

static void agree(struct sock_filter *program, size_t count)
{
    static const long values[] = {0, 1, 7, 8, 15, 16, 0x7fffffff, 0x80000000, 0xffffffff};
    for (unsigned i = 0; i < COUNT(values); i++) {
        bool allows = filter_allows(program, (uint32_t)count, OTHER, A, (uint64_t)values[i], 0, 0);
        assert_int_equal(kernel_says(program, count, values[i]), allows ? 0 : 7);
    }
}

/* Everything else goes through; B is in the accumulator. */
#define BEGIN                                                                                      \
    FIELD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OTHER, 1, 0), RETURN(SECCOMP_RET_ALLOW),        \
        FIELD(args[1])
#define END RETURN(ERRNO_7), RETURN(SECCOMP_RET_ALLOW)

static void test_jumps(void **state)
{
    (void)state;
    static const uint16_t kinds[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
    for (unsigned i = 0; i < COUNT(kinds); i++) {
        struct sock_filter by_k[] = {BEGIN, BPF_JUMP(BPF_JMP | kinds[i] | BPF_K, 8, 0, 1), END};
        struct sock_filter by_x[] = {BEGIN, BPF_STMT(BPF_LDX | BPF_IMM, 8),
                                     BPF_JUMP(BPF_JMP | kinds[i] | BPF_X, 0, 1, 0), END};
        agree(by_k, COUNT(by_k));
        agree(by_x, COUNT(by_x));
    }
    struct sock_filter always[] = {BEGIN, BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), END};
    agree(always, COUNT(always));
}

static void test_arithmetic(void **state)
{
    (void)state;
    static const uint16_t kinds[] = {BPF_ADD, BPF_SUB, BPF_MUL, BPF_DIV, BPF_AND,
                                     BPF_OR,  BPF_XOR, BPF_LSH, BPF_RSH, BPF_NEG};
    static const uint32_t results[] = {10, 0x7ffffffe, 21, 2, 3, 15, 4, 64, 1, 0xffffffff};
    for (unsigned i = 0; i < COUNT(kinds); i++) {
        struct sock_filter by_k[] = {BEGIN, BPF_STMT(BPF_ALU | kinds[i] | BPF_K, 3),
                                     BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, results[i], 0, 1), END};
        struct sock_filter by_memory[] = {
            BEGIN,
            BPF_STMT(BPF_MISC | BPF_TAX, 0),
            BPF_STMT(BPF_STX, 3),
            BPF_STMT(BPF_LD | BPF_IMM, 3),
            BPF_STMT(BPF_ST, 15),
            BPF_STMT(BPF_LDX | BPF_MEM, 15),
            BPF_STMT(BPF_LD | BPF_MEM, 3),
            BPF_STMT(BPF_ALU | kinds[i] | (kinds[i] == BPF_NEG ? BPF_K : BPF_X), 0),
            BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, results[i], 1, 0),
            END};
        agree(by_k, COUNT(by_k));
        agree(by_memory, COUNT(by_memory));
    }
}

static void test_data(void **state)
{
    (void)state;
    struct sock_filter by_arch[] = {
        BEGIN, FIELD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 1), END};
    struct sock_filter by_first[] = {BEGIN, FIELD(args[0]),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, A, 1, 0), END};
    struct sock_filter by_size[] = {BEGIN, BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
                                    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 64, 0, 1), END};
    struct sock_filter by_value[] = {BEGIN, BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 8, 0, 2),
                                     BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW),
                                     BPF_STMT(BPF_RET | BPF_A, 0), END};
    agree(by_arch, COUNT(by_arch));
    agree(by_first, COUNT(by_first));
    agree(by_size, COUNT(by_size));
    agree(by_value, COUNT(by_value));
}

/* What the kernel refuses is never run there; here it allows nothing, and reads nothing. */
static void test_nonsense(void **state)
{
    (void)state;
    struct sock_filter outside[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)),
                                    RETURN(SECCOMP_RET_ALLOW)};
    struct sock_filter far[] = {BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0),
                                RETURN(SECCOMP_RET_ALLOW)};
    struct sock_filter memory[] = {BPF_STMT(BPF_LD | BPF_MEM, 16), RETURN(SECCOMP_RET_ALLOW)};
    struct sock_filter nothing[] = {BPF_STMT(BPF_LDX | BPF_IMM, 0),
                                    BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0),
                                    RETURN(SECCOMP_RET_ALLOW)};
    assert_false(filter_allows(outside, COUNT(outside), 0, 0, 0, 0, 0));
    assert_false(filter_allows(far, COUNT(far), 0, 0, 0, 0, 0));
    assert_false(filter_allows(memory, COUNT(memory), 0, 0, 0, 0, 0));
    assert_false(filter_allows(nothing, COUNT(nothing), 0, 0, 0, 0, 0));
    assert_false(filter_allows(nothing, 0, 0, 0, 0, 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jumps), cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_data), cmocka_unit_test(test_nonsense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
