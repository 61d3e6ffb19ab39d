/*
 * Row 44: a child is started with as many arguments as the kernel takes beside its environment:
 * there is no room for another variable.
 */
#include "torture.h"

#include <fcntl.h>
#include <sys/wait.h>

enum { MANY = 1000, MOST = 1 << 18, RAN = 7 };

/* 0, or why the program could not be started with so many arguments. */
static int start(char *path, long count)
{
    static char argument[] = "an argument of forty characters, or so it is";
    static char *arguments[MOST + 2];
    int pipes[2], why = 0, status = 0;
    arguments[0] = path;
    for (long i = 1; i <= count; i++)
        arguments[i] = argument;
    arguments[count + 1] = NULL;
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    pid_t child = fork();
    if (child == 0) {
        execv(path, arguments);
        why = errno;
        CHECK(write(pipes[1], &why, sizeof why) == sizeof why);
        _exit(1);
    }
    close(pipes[1]);
    int is_told = read(pipes[0], &why, sizeof why) == sizeof why;
    close(pipes[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(is_told || status == RAN << 8);
    return is_told ? why : 0;
}

int main(int argc, char **argv)
{
    if (argc > MANY)
        return RAN;
    long least = MANY, most = MOST;
    while (least < most) {
        long middle = (least + most + 1) / 2;
        int why = start(argv[0], middle);
        CHECK(why == 0 || why == E2BIG);
        if (why)
            most = middle - 1;
        else
            least = middle;
    }
    printf("%ld arguments\n", least);
    burn_ms(50);
    return torture_end();
}
