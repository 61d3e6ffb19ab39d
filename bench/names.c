/*
 * How long names take: random places of one file, looked up in its debug information and, the
 * second time, in the cache. Set XDG_CACHE_HOME to an empty folder.
 *
 *     names FILE PLACES
 */
#include "elf/elf_file.h"
#include "names/fill.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu_s(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static uint64_t random_offset(const struct elf_file *file)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < file->code.count; i++)
        sum += file->code.items[i].end - file->code.items[i].start;
    uint64_t at = ((uint64_t)random() << 31 | (uint64_t)random()) % sum;
    for (size_t i = 0;; i++) {
        uint64_t size = file->code.items[i].end - file->code.items[i].start;
        if (at < size)
            return file->code.items[i].start + at - file->base;
        at -= size;
    }
}

static int run(const struct elf_file *file, uint32_t places, const char *what)
{
    struct profile_writer *w;
    struct ct_error err;
    struct fill_result result;
    const char *path = "/tmp/calltrail-bench-names.ctp";
    if (profile_writer_open(path, &w, &err) != CT_OK)
        return 1;
    struct ctp_module module = {.path = profile_add_string(w, file->path),
                                .kind = CTP_MODULE_FILE,
                                .base = file->base,
                                .size = file->span,
                                .build_id_size = file->build_id_size};
    memcpy(module.build_id, file->build_id, file->build_id_size);
    profile_add_module(w, &module);
    srandom(1);
    for (uint32_t i = 0; i < places; i++)
        profile_add_frame(w,
                          &(struct ctp_frame){.offset = random_offset(file), .function = CTP_NONE});
    struct rusage before, usage;
    getrusage(RUSAGE_SELF, &before);
    double start = now_s();
    int status = names_fill(w, &(struct debug_folders){0}, &result, &err);
    double named = now_s();
    getrusage(RUSAGE_SELF, &usage);
    if (status == CT_OK)
        status = profile_writer_commit(w, &err);
    if (status != CT_OK) {
        fprintf(stderr, "names: %s\n", err.text);
        return 1;
    }
    printf("%-8s %u places, %u with a source line: %.2f s, of which CPU %.2f s; %.0f MB\n", what,
           result.places, result.located, named - start, cpu_s(&usage) - cpu_s(&before),
           (double)usage.ru_maxrss / 1024);
    unlink(path);
    return 0;
}

int main(int argc, char **argv)
{
    struct elf_file file;
    struct ct_error err;
    if (argc != 3 || elf_open(argv[1], &file, &err) != CT_OK) {
        fputs("usage: names FILE PLACES\n", stderr);
        return 2;
    }
    uint32_t places = (uint32_t)strtoul(argv[2], NULL, 10);
    int status = run(&file, places, "first") || run(&file, places, "again");
    elf_close(&file);
    return status;
}
