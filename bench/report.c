/*
 * What the views of huge profiles cost, as `calltrail report` shows them.
 *
 *     report CALLTRAIL GEN_PROFILE DIR [NODES...]
 *
 * Makes profiles in DIR with GEN_PROFILE, asks for every view of them, removes them, and prints
 * tables for bench/RESULTS.md. Of three runs the median counts; the biggest profile is shown once.
 * CPU time is beside the time by the clock, since only the latter depends on who else uses the
 * machine. Peak memory includes the pages of the mapped file, although the kernel can take them
 * back at will.
 */
#include "base/vec.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS = 3, SMALL_NODES = 1000000, BIG_NODES = 40000000 };

struct cost {
    double wall_s, cpu_s, memory_mb;
};

static void die(const char *text)
{
    fprintf(stderr, "bench report: %s\n", text);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static struct cost run(char *const *command)
{
    double start = now_s();
    pid_t child = fork();
    if (child < 0)
        die("fork failed");
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, 1);
        execv(command[0], command);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child || status != 0)
        die(command[0]);
    return (struct cost){now_s() - start, seconds(usage.ru_utime) + seconds(usage.ru_stime),
                         (double)usage.ru_maxrss / 1024};
}

static int by_cpu(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    return (x->cpu_s > y->cpu_s) - (x->cpu_s < y->cpu_s);
}

static struct cost median(char *const *command, int runs)
{
    struct cost costs[RUNS];
    for (int i = 0; i < runs; i++)
        costs[i] = run(command);
    qsort(costs, (size_t)runs, sizeof *costs, by_cpu);
    return costs[runs / 2];
}

static void measure(char *calltrail, char *gen_profile, char *path, uint32_t nodes,
                    const char *shape)
{
    static const struct {
        const char *name, *option, *value;
        bool every_size;
    } views[] = {
        {"summary", "--view", "summary", false},
        {"contexts", "--view", "contexts", true},
        {"topdown", "--view", "topdown", false},
        {"bottomup", "--view", "bottomup", false},
        {"flat", "--view", "flat", true},
        {"threads", "--view", "threads", false},
        {"processes", "--view", "processes", false},
        {"phases", "--view", "phases", false},
        {"callers", "--callers", "function_1000", false},
        {"callees", "--callees", "function_1000", false},
    };
    char *count = must_format("%" PRIu32, nodes);
    char *make[] = {gen_profile, "--seed", "1",         "--nodes", count, "--shape", (char *)shape,
                    "--threads", "4",      "--metrics", "1",       path,  NULL};
    run(make);
    struct stat file;
    if (stat(path, &file) != 0)
        die("the profile was not made");
    double size_mb = (double)file.st_size / (1 << 20);
    printf("\n%s nodes, %s: a file of %.1f MB\n\n", count, shape, size_mb);
    puts("| view | time | CPU time | peak memory | times the file |\n|---|---:|---:|---:|---:|");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        if (nodes >= BIG_NODES && !views[i].every_size)
            continue;
        char *command[] = {
            calltrail, "report", (char *)views[i].option, (char *)views[i].value, "--no-pager",
            path,      NULL};
        struct cost cost = median(command, nodes >= BIG_NODES ? 1 : RUNS);
        printf("| %s | %.2f s | %.2f s | %.1f MB | %.2f |\n", views[i].name, cost.wall_s,
               cost.cpu_s, cost.memory_mb, cost.memory_mb / size_mb);
        fflush(stdout);
    }
    unlink(path);
    free(count);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: report CALLTRAIL GEN_PROFILE DIR [NODES...]\n", stderr);
        return 2;
    }
    static const char *const shapes[] = {"random", "deep", "bushy"};
    char *path = must_format("%s/bench-report.ctp", argv[3]);
    if (argc == 4) {
        for (int i = 0; i < 3; i++)
            measure(argv[1], argv[2], path, SMALL_NODES, shapes[i]);
        measure(argv[1], argv[2], path, BIG_NODES, shapes[0]);
    }
    for (int i = 4; i < argc; i++)
        for (int k = 0; k < 3; k++)
            measure(argv[1], argv[2], path, (uint32_t)strtoul(argv[i], NULL, 10), shapes[k]);
    free(path);
    return 0;
}
