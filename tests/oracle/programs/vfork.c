/* Children that run on their parent's stack: vfork with _exit and with exec, and posix_spawn. */
#include "checksum.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

NOINLINE static int child_work(int n)
{
    return n > 0 ? child_work(n - 1) + 1 : 3;
}

NOINLINE static int wait_for(pid_t child)
{
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

NOINLINE static int exits(int n)
{
    pid_t child = vfork();
    if (child == 0)
        _exit(child_work(n));
    return wait_for(child);
}

NOINLINE static int executes(const char *path)
{
    pid_t child = vfork();
    if (child == 0) {
        execl(path, path, (char *)NULL);
        _exit(77);
    }
    return wait_for(child);
}

int main(void)
{
    char *arguments[] = {"true", NULL}, *environment[] = {NULL};
    pid_t child;
    check((unsigned)exits(5));
    check((unsigned)executes("/bin/false"));
    check((unsigned)executes("/nonexistent"));
    if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environment) == 0)
        check((unsigned)wait_for(child));
    child = fork();
    if (child == 0)
        _exit(child_work(9));
    check((unsigned)wait_for(child));
    return print_checksum("vfork");
}
