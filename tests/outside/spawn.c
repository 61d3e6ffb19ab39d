/*
 * Starts the program of its arguments in one of the ways that there are: s posix_spawn, p
 * posix_spawnp, v vfork, f fork, t from a second thread by exec, x exec of a file that cannot be
 * run first. Its status is the program's.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **command;

static void *run(void *unused)
{
    execv(command[0], command);
    perror(command[0]);
    _exit(127);
    return unused;
}

static pid_t start(char way)
{
    pid_t pid = -1;
    pthread_t thread;
    switch (way) {
    case 's':
        if (posix_spawn(&pid, command[0], NULL, NULL, command, environ) != 0)
            return -1;
        return pid;
    case 'p':
        if (posix_spawnp(&pid, command[0], NULL, NULL, command, environ) != 0)
            return -1;
        return pid;
    case 'v':
        pid = vfork();
        break;
    case 'f':
        pid = fork();
        break;
    case 't':
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
        break;
    case 'x': /* the first fails, and must leave nothing behind for the second */
        if (execv(command[0], command) == 0)
            return -1;
        command++;
        pid = 0;
        break;
    default:
        return -1;
    }
    if (pid == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    int status;
    if (argc < 3)
        return 2;
    command = argv + 2;
    pid_t pid = start(argv[1][0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 126;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
