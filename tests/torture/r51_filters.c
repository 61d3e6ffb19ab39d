/*
 * Row 51: filters for system calls that leave a guest nothing, as the argument says. They allow no
 * way back from a signal handler ("sigreturn"), no change of the mask ("mask"), nearly nothing at
 * all
 * ("strict"); were installed for all threads at a time ("all"), by a system call that no library
 * makes, before another program is run ("inherited", "inside"), or are just lists of what the
 * program needs, with an errno for the rest ("errno").
 */
#include "torture.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static NOINLINE void before_filter(void)
{
    burn_ms(60);
}

/* Without any system call. */
static NOINLINE void with_filter(void)
{
    for (int i = 0; i < 2000; i++)
        spin(20000);
}

#define ALLOW(number)                                                                              \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define DENY(number)                                                                               \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),                                             \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
#define NUMBER         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define OTHERS(answer) BPF_STMT(BPF_RET | BPF_K, answer)

static long inline_call(long number, long a, long b, long c)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static const struct sock_filter without_return[] = {
    NUMBER,
    ALLOW(SYS_write),
    ALLOW(SYS_exit_group),
    ALLOW(SYS_rt_sigprocmask),
    ALLOW(SYS_exit),
    OTHERS(SECCOMP_RET_KILL_PROCESS),
};
static const struct sock_filter without_mask[] = {
    NUMBER,
    ALLOW(SYS_write),
    ALLOW(SYS_exit_group),
    ALLOW(SYS_rt_sigreturn),
    OTHERS(SECCOMP_RET_KILL_PROCESS),
};
static const struct sock_filter with_errno[] = {
    NUMBER,
    ALLOW(SYS_write),
    ALLOW(SYS_exit_group),
    OTHERS(SECCOMP_RET_ERRNO | EPERM),
};
/* What a dynamic linker needs, and a program that only prints, but nothing of a guest's. */
static const struct sock_filter for_program[] = {
    NUMBER,
    DENY(SYS_rt_sigreturn),
    DENY(SYS_perf_event_open),
    DENY(SYS_socket),
    DENY(SYS_timer_create),
    DENY(SYS_rt_sigprocmask),
    DENY(SYS_rt_sigaction),
    DENY(SYS_prctl),
    DENY(SYS_sigaltstack),
    DENY(SYS_gettid),
    OTHERS(SECCOMP_RET_ALLOW),
};

#define INSTALL(filter)                                                                            \
    do {                                                                                           \
        struct sock_fprog program_ = {sizeof filter / sizeof filter[0],                            \
                                      (struct sock_filter *)(filter)};                             \
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);                                        \
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program_) == 0);                         \
    } while (0)

static void say_alive(void)
{
    static const char text[] = "alive\n";
    inline_call(SYS_write, 1, (long)text, sizeof text - 1);
}

/* On a part of the stack that was never used. */
static NOINLINE int deeper(int depth)
{
    volatile char here[4096];
    here[depth] = 1;
    if (depth)
        return deeper(depth - 1) + here[depth];
    with_filter();
    return here[0];
}

static void go_on(void)
{
    deeper(20);
    void *volatile memory = malloc(100); /* events of memory look at the stack */
    free(memory);
    with_filter();
    say_alive();
}

static pthread_barrier_t is_there;

static void *other_thread(void *argument)
{
    pthread_barrier_wait(&is_there);
    for (;;)
        with_filter();
    return argument;
}

/* What cannot be installed changes nothing. */
static void try_in_vain(void)
{
    struct sock_filter wrong[] = {OTHERS(SECCOMP_RET_ALLOW), {0xffff, 0, 0, 0}};
    struct sock_fprog program = {2, wrong};
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 16) == -1);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1 && errno == EINVAL);
    before_filter();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    free(malloc(100));
    if (strcmp(what, "inside") == 0) {
        go_on();
        return 0;
    }
    before_filter();
    try_in_vain();
    printf("ready for %s\n", what);
    CHECK(torture_failures == 0);
    fflush(stdout);
    if (strcmp(what, "sigreturn") == 0) {
        INSTALL(without_return);
    } else if (strcmp(what, "mask") == 0) {
        INSTALL(without_mask);
    } else if (strcmp(what, "errno") == 0) {
        INSTALL(with_errno);
    } else if (strcmp(what, "strict") == 0) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
        go_on();
        inline_call(SYS_exit, torture_failures != 0, 0, 0);
    } else if (strcmp(what, "all") == 0) {
        pthread_t thread;
        struct sock_fprog program = {sizeof without_return / sizeof without_return[0],
                                     (struct sock_filter *)without_return};
        pthread_barrier_init(&is_there, NULL, 2);
        pthread_create(&thread, NULL, other_thread, NULL);
        pthread_barrier_wait(&is_there);
        burn_ms(50);
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
              0);
    } else {
        struct sock_fprog program = {sizeof for_program / sizeof for_program[0],
                                     (struct sock_filter *)for_program};
        char *arguments[] = {argv[0], "inside", NULL};
        pid_t child = vfork(); /* which gets no signals that may find the filter */
        if (child == 0) {
            inline_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program);
            execv("/proc/self/exe", arguments);
            _exit(1);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        printf("child: %#x\n", status);
        return torture_end();
    }
    go_on();
    inline_call(SYS_exit_group, torture_failures != 0, 0, 0);
    return 1;
}
