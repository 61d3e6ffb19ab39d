/*
 * Row 7: a child in each of the ways that there are. The argument says which; the child runs this
 * program again and burns in a function of its own, and the parent goes on as before.
 */
#include "torture.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static const char *self;
static char command[4200];

static NOINLINE void burn_in_parent(void)
{
    burn_ms(100);
}

static NOINLINE void burn_in_child(void)
{
    burn_ms(100);
}

static void collect(pid_t pid)
{
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    printf("status %#x\n", status);
}

static void vfork_exec(void)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execl(self, self, "child", NULL);
        _exit(99);
    }
    collect(pid);
    pid = vfork(); /* the exec fails: the parent's memory must be as it was */
    if (pid == 0) {
        execl("/nonexistent/program", "program", NULL);
        _exit(errno == ENOENT ? 5 : 6);
    }
    collect(pid);
    pid = vfork(); /* a child that burns in its parent's memory */
    if (pid == 0) {
        spin(20000000);
        _exit(8);
    }
    collect(pid);
}

static void fork_exec(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        burn_ms(20);
        execl(self, self, "child", NULL);
        _exit(99);
    }
    collect(pid);
}

static void spawn(void)
{
    char *const arguments[] = {(char *)self, (char *)"child", NULL};
    pid_t pid;
    CHECK(posix_spawn(&pid, self, NULL, NULL, arguments, environ) == 0);
    collect(pid);
    CHECK(posix_spawnp(&pid, self, NULL, NULL, arguments, environ) == 0);
    collect(pid);
    CHECK(posix_spawn(&pid, "/nonexistent/program", NULL, NULL, arguments, environ) == ENOENT);
}

static void run_system(void)
{
    printf("NULL: %d\n", system(NULL) != 0);
    printf("%#x\n", system(command));
    printf("%#x\n", system("exit 3"));
    printf("%#x\n", system("kill -9 $$"));
    fflush(stdout);
    printf("%#x\n", system("/nonexistent/program 2>/dev/null"));
}

static void run_popen(void)
{
    FILE *pipe = popen(command, "r"), *other = popen("cat >/dev/null", "w");
    char line[256];
    while (fgets(line, sizeof line, pipe))
        printf("read: %s", line);
    fputs("text\n", other);
    printf("%#x\n", pclose(other));
    printf("%#x\n", pclose(pipe));
}

/* The grandchild outlives the child; the pipe tells when it has ended. */
static void daemonize(void)
{
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        CHECK(daemon(0, 1) == 0);
        burn_in_child();
        ssize_t written = write(ends[1], "d", 1);
        _exit(written != 1);
    }
    close(ends[1]);
    collect(pid);
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'd');
    CHECK(read(ends[0], &byte, 1) == 0);
    printf("the daemon has ended\n");
}

static int cloned(void *argument)
{
    (void)argument;
    execl(self, self, "child", NULL);
    return 99;
}

static void clone_vm(void)
{
    static char stack[65536] __attribute__((aligned(16)));
    pid_t pid = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    collect(pid);
}

static void fork_tree(void)
{
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            burn_in_child();
            continue;
        }
        collect(pid);
        if (i)
            exit(i);
        return;
    }
    exit(9);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"vfork", vfork_exec},  {"fork", fork_exec},     {"spawn", spawn},
                {"system", run_system}, {"popen", run_popen},    {"daemon", daemonize},
                {"clone", clone_vm},    {"fork_tree", fork_tree}};
    self = argv[0];
    snprintf(command, sizeof command, "'%s' child", self);
    if (argc > 1 && strcmp(argv[1], "child") == 0) {
        burn_in_child();
        printf("child\n");
        return 4;
    }
    burn_in_parent();
    fflush(stdout);
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (argc > 1 && strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    burn_in_parent();
    return torture_end();
}
