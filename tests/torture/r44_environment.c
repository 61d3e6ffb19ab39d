/*
 * Row 44: the program's view of itself. Its environment, its open descriptors, its signal mask and
 * the next free descriptor are what they are without us, in the program and in what it starts.
 *
 * With "child" as its argument it is what the first one starts: it prints the same of itself.
 */
#include "torture.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static void print_environment(void)
{
    for (char **at = environ; *at; at++)
        printf("  %s\n", *at);
    printf("  LD_PRELOAD %s\n", getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "is not set");
}

static void print_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int own = dirfd(folder), open_fds[64], count = 0;
    for (struct dirent *e; (e = readdir(folder));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != own && count < 64)
            open_fds[count++] = atoi(e->d_name);
    closedir(folder);
    printf("  descriptors:");
    for (int fd = 0; fd < 65536; fd++)
        for (int i = 0; i < count; i++)
            if (open_fds[i] == fd)
                printf(" %d", fd);
    printf("\n");
}

static void print_signals(void)
{
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    printf("  blocked:");
    for (int i = 1; i < 65; i++)
        if (sigismember(&mask, i) == 1)
            printf(" %d", i);
    printf("\n  handled:");
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf(" %d%s", i, action.sa_handler == SIG_IGN ? " (ignored)" : "");
    }
    printf("\n");
}

static void print_self(const char *who)
{
    printf("%s\n", who);
    print_environment();
    print_descriptors();
    print_signals();
    fflush(stdout);
    int fd = open("/dev/null", O_RDONLY);
    printf("  open returns %d\n", fd);
    close(fd);
}

static void wait_for(const char *what, pid_t pid)
{
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("%s ended with %d\n", what, status);
    fflush(stdout);
}

static void start_children(const char *self)
{
    char *const arguments[] = {(char *)self, (char *)"child", NULL};
    char *const own[] = {(char *)"ONLY=this", (char *)"AND=that", NULL};
    char *const none[] = {NULL};
    char command[4200];
    snprintf(command, sizeof command, "'%s' child", self);
    pid_t pid;

    fflush(stdout);
    if ((pid = fork()) == 0) {
        execve(self, arguments, own);
        _exit(99);
    }
    wait_for("fork, execve with its own environment", pid);
    if ((pid = fork()) == 0) {
        execve(self, arguments, none);
        _exit(99);
    }
    wait_for("fork, execve with an empty environment", pid);
    if ((pid = vfork()) == 0) {
        execl(self, self, "child", NULL);
        _exit(99);
    }
    wait_for("vfork, execl", pid);
    CHECK(posix_spawn(&pid, self, NULL, NULL, arguments, own) == 0);
    wait_for("posix_spawn", pid);
    printf("system: %d\n", system(command));
    fflush(stdout);

    FILE *pipe = popen(command, "r");
    char line[4096];
    while (fgets(line, sizeof line, pipe))
        printf("popen: %s", line);
    printf("pclose: %d\n", pclose(pipe));
    printf("env as a shell sees it:\n");
    fflush(stdout);
    printf("%d\n", system("env | sort"));
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        print_self(argv[1]);
        burn_ms(30);
        return torture_end();
    }
    print_self("program");
    burn_ms(200);
    start_children(argv[0]);

    setenv("ADDED", "yes", 1);
    unsetenv("REMOVED");
    print_self("changed");
    clearenv();
    setenv("AFTER", "clearenv", 1);
    print_self("cleared");
    return torture_end();
}
