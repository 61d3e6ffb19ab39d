/*
 * What maps cost: made from the ELF file, and opened from the cache.
 *
 *     map FILE...
 *
 * Each file is done in a process of its own, for its peak memory. Opening is what map_for_file does
 * with a warm cache: find the build-id and the debug file, map the entry, check all of it.
 */
#include "map/cache.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int measure(char *path)
{
    enum { OPENINGS = 51 };
    struct map_cache cache;
    struct map map;
    struct ct_error err;
    bool cached;
    double opening[OPENINGS];
    map_cache_open(&cache);
    double start = now_ms();
    if (map_for_file(&cache, path, &map, &cached, &err) != CT_OK || cached) {
        fprintf(stderr, "%s\n", cached ? "the cache was not empty" : err.text);
        return 1;
    }
    double making = now_ms() - start;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    struct map_header h = *map.header;
    uint32_t functions = map.function_count, rows = map.tables.row_count;
    map_close(&map);
    for (int i = 0; i < OPENINGS; i++) {
        start = now_ms();
        if (map_for_file(&cache, path, &map, &cached, &err) != CT_OK || !cached)
            return 1;
        opening[i] = now_ms() - start;
        map_close(&map);
    }
    qsort(opening, OPENINGS, sizeof *opening, by_value);
    printf("| %s | %.1f | %u | %u | %.1f | %.0f | %.2f | %.0f |\n", basename(path),
           (double)h.counts.bytes_code / 1e6, functions, rows, (double)h.file_size / 1e6, making,
           opening[OPENINGS / 2], (double)usage.ru_maxrss / 1024);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;
    char folder[] = "/tmp/calltrail-bench-XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    setenv("XDG_CACHE_HOME", folder, 1);
    puts("| module | code MB | functions | rows | map MB | made, ms | opened, ms | peak memory MB "
         "|\n"
         "|---|---|---|---|---|---|---|---|");
    for (int i = 1; i < argc; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0)
            exit(measure(argv[i]));
        int status;
        waitpid(child, &status, 0);
        failed |= status != 0;
    }
    if (fork() == 0)
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
    wait(NULL);
    return failed;
}
