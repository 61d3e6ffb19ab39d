/*
 * What a huge profile costs to write, open, print and check.
 *
 *     ctp DIR [NODES]
 *
 * Writes a profile of NODES nodes (40 million) with two metrics into DIR, measures, removes it, and
 * prints a table for bench/RESULTS.md. Each step runs in a process of its own, so that its peak
 * memory is its own; pages of the mapped file count in it, although the kernel can take them back
 * at will.
 */
#include "base/vec.h"
#include "profile/profile.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, FRAMES = 100000, METRICS = 2 };

struct bench {
    char *path;
    uint32_t nodes;
    double seconds; /* what the step measured; shared with its process */
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *text)
{
    fprintf(stderr, "bench ctp: %s\n", text);
    exit(1);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static struct profile_writer *begin(const struct bench *b)
{
    struct profile_writer *w;
    struct ct_error err;
    if (profile_writer_open(b->path, &w, &err) != CT_OK)
        die(err.text);
    for (int m = 0; m < METRICS; m++)
        profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, m ? "b" : "a"),
                                                   .unit = profile_add_string(w, "ns")});
    profile_begin_nodes(w, b->nodes);
    profile_add_root(w, CTP_NONE, CTP_NONE);
    for (uint32_t i = 0; i < FRAMES; i++)
        profile_add_frame(
            w, &(struct ctp_frame){.offset = i, .module = CTP_NONE, .function = CTP_NONE});
    return w;
}

/*
 * Writes nodes that are made from their numbers with a few instructions: parents lie a varying way
 * back, so the tree is some thousands deep and reading it jumps about.
 */
static void write_step(struct bench *b)
{
    uint32_t *parents = must_calloc(CHUNK, sizeof *parents);
    uint32_t *frames = must_calloc(CHUNK, sizeof *frames);
    uint64_t *values = must_calloc(CHUNK, sizeof *values);
    double start = now_s();
    struct profile_writer *w = begin(b);
    for (uint32_t first = 0; first < b->nodes; first += CHUNK) {
        uint32_t count = b->nodes - first < CHUNK ? b->nodes - first : CHUNK;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t node = first + i, mixed = node * UINT32_C(2654435761);
            parents[i] = node - 1 -
                         (uint32_t)((uint64_t)(mixed >> 12) * (node < 20000 ? node : 20000) >> 20);
            frames[i] = mixed % FRAMES;
            values[i] = mixed & 4 ? 0 : mixed >> 8;
        }
        if (first == 0)
            parents[0] = frames[0] = CTP_NONE;
        profile_write_nodes(w, parents, frames, count);
        for (uint32_t m = 0; m < METRICS; m++)
            profile_write_values(w, m, values, count);
    }
    struct ct_error err;
    if (profile_writer_commit(w, &err) != CT_OK)
        die(err.text);
    b->seconds = now_s() - start;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Asks the kernel to forget the file; what it does not forget stays warm. */
static void forget_pages(const struct bench *b)
{
    int fd = open(b->path, O_RDONLY);
    if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("the file cannot be dropped from the page cache");
    close(fd);
}

static void open_profile(const struct bench *b, struct profile *p)
{
    struct ct_error err;
    if (profile_open(b->path, p, &err) != CT_OK)
        die(err.text);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_open_s(const struct bench *b, int count, bool cold)
{
    double *times = must_calloc((size_t)count, sizeof *times);
    for (int i = 0; i < count; i++) {
        struct profile p;
        if (cold)
            forget_pages(b);
        double start = now_s();
        open_profile(b, &p);
        times[i] = now_s() - start;
        profile_close(&p);
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    double median = times[count / 2];
    free(times);
    return median;
}

static void open_cold_step(struct bench *b)
{
    b->seconds = median_open_s(b, 11, true);
}

static void open_warm_step(struct bench *b)
{
    b->seconds = median_open_s(b, 1001, false);
}

static void info_step(struct bench *b)
{
    FILE *nowhere = fopen("/dev/null", "w");
    if (!nowhere)
        die("/dev/null cannot be opened");
    double start = now_s();
    struct profile p;
    struct ct_error err;
    open_profile(b, &p);
    if (profile_validate_tables(&p, &err) != CT_OK)
        die(err.text);
    profile_print_text(&p, true, nowhere);
    profile_close(&p);
    b->seconds = now_s() - start;
    fclose(nowhere);
}

static void info_cold_step(struct bench *b)
{
    forget_pages(b);
    info_step(b);
}

static void validate_step(struct bench *b)
{
    struct profile p;
    struct ct_error err;
    double start = now_s();
    open_profile(b, &p);
    if (profile_validate(&p, &err) != CT_OK)
        die(err.text);
    b->seconds = now_s() - start;
    profile_close(&p);
}

/* ---- The table ------------------------------------------------------------------------------- */

static void run(const char *what, void (*step)(struct bench *), struct bench *b)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        die("fork failed");
    if (child == 0) {
        step(b);
        _exit(0);
    }
    int status;
    struct rusage usage;
    if (wait4(child, &status, 0, &usage) != child || status != 0) {
        unlink(b->path);
        exit(1);
    }
    if (b->seconds < 0.1)
        printf("| %s | %.3f ms | %.1f MB |\n", what, b->seconds * 1e3,
               (double)usage.ru_maxrss / 1024);
    else
        printf("| %s | %.2f s | %.1f MB |\n", what, b->seconds, (double)usage.ru_maxrss / 1024);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fputs("usage: ctp DIR [NODES]\n", stderr);
        return 2;
    }
    struct bench *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        die("no memory");
    b->path = must_format("%s/bench.ctp", argv[1]);
    b->nodes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 40000000;
    printf("Profile of %" PRIu32 " nodes, %d metrics\n\n", b->nodes, METRICS);
    puts("| step | time | peak memory |\n|---|---:|---:|");
    run("write", write_step, b);
    run("open, file not in memory (median of 11)", open_cold_step, b);
    run("open (median of 1001)", open_warm_step, b);
    run("info, file not in memory", info_cold_step, b);
    run("info", info_step, b);
    run("full check", validate_step, b);
    unlink(b->path);
    return 0;
}
