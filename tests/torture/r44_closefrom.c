/*
 * Row 44: closes every descriptor that it could have, in three ways, and goes on; descriptors count
 * from 3 afterwards. A child that is forked, and threads that are made, then are sampled too.
 */
#include "torture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void print_next(const char *when)
{
    int a = open("/dev/null", O_RDONLY), b = dup(a), pipes[2];
    CHECK(pipe(pipes) == 0);
    printf("%s: %d %d %d %d\n", when, a, b, pipes[0], pipes[1]);
    close(a);
    close(b);
    close(pipes[0]);
    close(pipes[1]);
}

static NOINLINE void after_close_range(void)
{
    burn_ms(150);
}

static NOINLINE void in_child(void)
{
    burn_ms(100);
}

static NOINLINE void *in_thread(void *argument)
{
    pthread_setname_np(pthread_self(), "after-close");
    burn_ms(100);
    return argument;
}

int main(void)
{
    print_next("at first");
    burn_ms(50);
    closefrom(3);
    print_next("closefrom");
    for (int fd = 3; fd < 20000; fd++)
        if (close(fd) == 0)
            printf("closed %d\n", fd);
    print_next("close in a loop");
    printf("close_range: %ld\n", syscall(SYS_close_range, 3, ~0u, 0));
    after_close_range();
    print_next("close_range");
    fflush(stdout);

    pid_t pid = fork();
    if (pid == 0) {
        in_child();
        print_next("child");
        exit(torture_end());
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    print_next("thread");

    close(0);
    close(2);
    print_next("without 0 and 2");
    burn_ms(50);
    return torture_end();
}
