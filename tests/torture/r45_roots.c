/*
 * Row 45: the program changes its surroundings after the start, as the argument says, then burns,
 * makes a thread and forks: "chroot", "namespaces", "user", "pid", "session",
 * "setuid".
 */
#include "torture.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static NOINLINE void *in_thread(void *argument)
{
    burn_ms(100);
    return argument;
}

static NOINLINE void inside(void)
{
    burn_ms(150);
}

static NOINLINE void in_child(void)
{
    burn_ms(100);
}

static int change(const char *what)
{
    if (strcmp(what, "chroot") == 0)
        return mkdir("empty", 0755) || chroot("empty") || chdir("/");
    if (strcmp(what, "namespaces") == 0)
        return unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS);
    if (strcmp(what, "user") == 0)
        return unshare(CLONE_NEWUSER);
    if (strcmp(what, "pid") == 0 && unshare(CLONE_NEWPID))
        return 1;
    if (strcmp(what, "pid") == 0 || strcmp(what, "session") == 0) {
        pid_t pid = fork(); /* the leader of a group cannot begin a session */
        if (pid) {
            int status = -1;
            waitpid(pid, &status, 0);
            exit(WEXITSTATUS(status));
        }
        return setsid() < 0;
    }
    return setgid(65534) || setuid(65534);
}

int main(int argc, char **argv)
{
    burn_ms(30);
    if (argc < 2 || change(argv[1])) {
        perror(argc < 2 ? "no argument" : argv[1]);
        return 125;
    }
    inside();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        in_child();
        _exit(6);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("child %#x\n", status);
    return torture_end();
}
