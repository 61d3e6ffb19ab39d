/*
 * Row 53: debuggers. With "own" the program debugs a child itself, and counts the signals that it
 * sees; with "gdb" a debugger attaches to the program while it runs, and must get to the breakpoint
 * without a stop on the way.
 */
#include "torture.h"

#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

volatile int attached, go_on = 1;

static NOINLINE void debugged(void)
{
    burn_ms(150);
}

NOINLINE void checkpoint(void)
{
    __asm__ volatile("");
}

static int inside(void)
{
    debugged();
    raise(SIGUSR1);
    return 7;
}

static void on_user(int number)
{
    (void)number;
}

static void debug_child(char *program)
{
    int status, stops[65] = {0};
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(program, program, "inside", NULL);
        _exit(1);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int number = WSTOPSIG(status);
        stops[number]++;
        ptrace(PTRACE_CONT, child, 0, number == SIGTRAP ? 0 : number);
    }
    for (int i = 1; i <= 64; i++)
        if (stops[i])
            printf("signal %d: %d times\n", i, stops[i]);
    printf("child: %#x\n", status);
}

static void attach_gdb(void)
{
    char of_this[32], line[512];
    snprintf(of_this, sizeof of_this, "%d", getpid());
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pid_t gdb = fork();
    if (gdb == 0) {
        freopen("gdb.out", "w", stdout);
        dup2(1, 2);
        execlp("gdb", "gdb", "-batch", "-nx", "-ex", "break checkpoint", "-ex",
               "set var attached=1", "-ex", "continue", "-ex", "bt 1", "-ex", "detach", "-p",
               of_this, NULL);
        _exit(1);
    }
    while (!attached)
        spin(20000);
    debugged();
    checkpoint();
    int status, signals = 0, reached = 0;
    waitpid(gdb, &status, 0);
    FILE *out = fopen("gdb.out", "r");
    while (out && fgets(line, sizeof line, out)) {
        signals += strstr(line, "received signal") != NULL;
        reached += strncmp(line, "#0", 2) == 0 && strstr(line, "checkpoint");
    }
    printf("gdb: %#x, %d signals, at the breakpoint %d\n", status, signals, reached);
}

int main(int argc, char **argv)
{
    signal(SIGUSR1, on_user);
    if (argc > 1 && strcmp(argv[1], "inside") == 0)
        return inside();
    debugged();
    if (argc > 1 && strcmp(argv[1], "own") == 0)
        debug_child(argv[0]);
    else
        attach_gdb();
    return torture_end();
}
