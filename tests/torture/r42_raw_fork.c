/*
 * Row 42: children made without atfork handlers (fork and clone as raw system calls, _Fork), which
 * go on burning beside their parent. What they count must not end up in the parent's arena. Those
 * of libc's clone with a function are not followed; they end as they would, also by exit.
 */
#include "torture.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static NOINLINE void only_in_parent(void)
{
    burn_ms(100);
}

static NOINLINE void only_in_child(void)
{
    burn_ms(100);
}

static int returns(void *status)
{
    free(malloc(1000));
    burn_ms(20);
    return *(int *)status;
}

static int exits(void *status)
{
    burn_ms(20);
    exit(*(int *)status); /* runs destructors */
}

static void clone_and_print(const char *how, int (*function)(void *), int status)
{
    static char stack[65536] __attribute__((aligned(16)));
    pid_t pid = clone(function, stack + sizeof stack, SIGCHLD, &status);
    int found = 0;
    CHECK(waitpid(pid, &found, 0) == pid);
    printf("%s: %#x\n", how, found);
    fflush(stdout);
}

static void wait_and_print(const char *how, pid_t pid)
{
    int status = 0;
    only_in_parent();
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("%s: %#x\n", how, status);
}

int main(void)
{
    pid_t pid;
    burn_ms(20);
    if ((pid = (pid_t)syscall(SYS_fork)) == 0) {
        only_in_child();
        _exit(1);
    }
    wait_and_print("raw fork", pid);
    if ((pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) == 0) {
        only_in_child();
        _exit(2);
    }
    wait_and_print("raw clone", pid);
    if ((pid = _Fork()) == 0) {
        only_in_child();
        _exit(3);
    }
    wait_and_print("_Fork", pid);
    if ((pid = _Fork()) == 0) {
        only_in_child();
        if ((pid = fork()) == 0) {
            only_in_child();
            _exit(4);
        }
        int status;
        waitpid(pid, &status, 0);
        _exit(WEXITSTATUS(status) + 1);
    }
    wait_and_print("_Fork, then fork", pid);
    fflush(stdout);
    clone_and_print("clone, returns", returns, 5);
    clone_and_print("clone, exits", exits, 6);
    return torture_end();
}
