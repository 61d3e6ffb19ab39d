/*
 * Row 42: children made without atfork handlers (fork and clone as raw system calls, _Fork), which
 * go on burning beside their parent. What they count must not end up in the parent's arena.
 */
#include "torture.h"

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
    return torture_end();
}
