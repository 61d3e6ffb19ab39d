/*
 * Waits for a line on its input and then lives through what its argument says, a letter for each:
 * f forks a child that works and is waited for; t has a thread work; x runs itself anew, with the
 * rest of the letters; k dies by a signal. What is worked is in a function of that name.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) unsigned hot(unsigned x)
{
    for (long i = 0; i < 100000000; i++)
        x = x * 1103515245u + 12345u;
    return x;
}

#define WORK(name)                                                                                 \
    __attribute__((noinline)) unsigned name(unsigned x)                                            \
    {                                                                                              \
        return hot(x) + 1;                                                                         \
    }
WORK(in_child)
WORK(in_thread)
WORK(after_exec)

static void *thread(void *unused)
{
    return (void *)(unsigned long)(in_thread(1) + (unused != NULL));
}

int main(int argc, char **argv)
{
    char line[16];
    const char *what = argc > 1 ? argv[1] : "";
    unsigned x = 1;
    if (*what == '+') { /* after exec */
        what++;
        x = after_exec(x);
    } else if (!fgets(line, sizeof line, stdin)) {
        return 1;
    }
    for (; *what; what++) {
        if (*what == 'f') {
            pid_t child = fork();
            if (child == 0)
                _exit((int)(in_child(x) & 1));
            int status;
            waitpid(child, &status, 0);
            x += (unsigned)status;
        } else if (*what == 't') {
            pthread_t other;
            pthread_create(&other, NULL, thread, NULL);
            pthread_join(other, NULL);
        } else if (*what == 'x') {
            char rest[64];
            snprintf(rest, sizeof rest, "+%s", what + 1);
            execl("/proc/self/exe", argv[0], rest, (char *)NULL);
            return 2;
        } else if (*what == 'k') {
            kill(getpid(), SIGKILL);
        }
    }
    printf("%u\n", x);
    return 7;
}
