/*
 * Row 40: exec at any moment, hundreds of times, while samples are due: a signal that is pending
 * when the new program starts would kill it. Calls itself with a smaller number until it is 0; in
 * one of three ways, and once with a failing exec before.
 */
#include "torture.h"

extern char **environ;

int main(int argc, char **argv)
{
    int left = argc > 1 ? atoi(argv[1]) : 150;
    spin(100000 + (unsigned)left * 37 % 100 * 20000);
    if (left == 0) {
        printf("lives\n");
        return torture_end();
    }
    char number[16];
    snprintf(number, sizeof number, "%d", left - 1);
    char *const arguments[] = {argv[0], number, NULL};
    if (left % 10 == 0) {
        CHECK(execv("/nonexistent/program", arguments) == -1 && errno == ENOENT);
        spin(1000000);
    }
    if (torture_failures)
        return torture_end();
    switch (left % 3) {
    case 0:
        execv(argv[0], arguments);
        break;
    case 1:
        execve(argv[0], arguments, environ);
        break;
    default:
        execlp(argv[0], argv[0], number, NULL);
        break;
    }
    perror("exec");
    return 99;
}
