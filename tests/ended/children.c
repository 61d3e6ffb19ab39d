/*
 * Makes so many children, one after the other, each of which writes ten bytes and computes a
 * little; says so, and waits until its input ends. Ends with status 5.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void child_writes(int fd)
{
    if (write(fd, "0123456789", 10) != 10)
        _exit(1);
    __asm__ volatile("");
}

__attribute__((noinline)) void child_computes(void)
{
    for (volatile int i = 0; i < 300000; i++)
        ;
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    int fd = open("/dev/null", O_WRONLY), count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child == 0) {
            child_writes(fd);
            child_computes();
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    puts("done");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 5;
}
