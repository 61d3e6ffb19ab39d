/*
 * Row 6: the program puts all signals back to their defaults, in every way that libc has, as
 * daemons and sandboxes do before they begin. It must not die of the profiler's signal.
 */
#include "torture.h"

#include <sys/syscall.h>
#include <sys/wait.h>

struct kernel_action {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
};

static NOINLINE void reset_all(void)
{
    for (int i = 1; i < 65; i++) {
        if (i == SIGKILL || i == SIGSTOP || i == 32 || i == 33)
            continue;
        CHECK(signal(i, SIG_DFL) != SIG_ERR); /* nohup ignores some, and they stay so */
        CHECK(sysv_signal(i, SIG_DFL) == SIG_DFL);
        struct kernel_action none = {0}, old = {.handler = &none};
        CHECK(syscall(SYS_rt_sigaction, i, &none, &old, 8) == 0 && old.handler == NULL);
    }
}

static NOINLINE void after_reset(void)
{
    burn_ms(200);
}

static NOINLINE void in_child(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        reset_all();
        sigprocmask(SIG_SETMASK, &before, NULL);
        after_reset();
        _exit(torture_failures ? 1 : 7);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("child: status 0x%x\n", (unsigned)status);
}

int main(void)
{
    reset_all();
    after_reset();
    fflush(stdout);
    in_child();
    return torture_end();
}
