/*
 * Runs two programs in turn, so many times, all with the same process number.
 *
 *   reuse TIMES FIRST SECOND ARGUMENT
 */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t number = 0;
    if (argc != 5)
        return 2;
    for (int i = 0; i < atoi(argv[1]); i++) {
        struct clone_args clone = {.exit_signal = SIGCHLD,
                                   .set_tid = number ? (uint64_t)(uintptr_t)&number : 0,
                                   .set_tid_size = number != 0};
        pid_t child = (pid_t)syscall(SYS_clone3, &clone, sizeof clone);
        if (child == 0) {
            execl(argv[2 + i % 2], argv[2 + i % 2], argv[4], (char *)NULL);
            _exit(127);
        }
        if (child < 0) {
            perror("another process of the same number");
            return errno == EPERM ? 77 : 1;
        }
        number = child;
        int status;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
            return 1;
    }
    return 0;
}
