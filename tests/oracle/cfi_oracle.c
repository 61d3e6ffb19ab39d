/*
 * cfi_oracle: are the unwind rows of our maps what GNU readelf says?
 *
 *     cfi_oracle [--jobs N] [--list FILE] [--vdso] [--break N] [--quiet] [ELF...]
 *
 * For each file, the map is built in memory and compared with readelf's interpretation of
 * .eh_frame, for every byte of code that has an FDE. The last line of the output sums up; the exit
 * status is 0 when something was compared and nothing differs, 1 otherwise, 2 for wrong usage.
 *
 * --list names a file with one path on each line ("-" for stdin), where files that are not x86-64
 * programs or shared objects with .eh_frame are passed over. --vdso adds the code that the kernel
 * gives to every process. --break damages every Nth row of each map before comparing, to show that
 * this is noticed: the exit status is then 1, as for any difference, and 3 if a damaged row was not
 * noticed.
 *
 * The work is done by --jobs processes (one for each core, unless told), largest files first. A
 * process that dies takes only its current file with it.
 */
#include "base/vec.h"
#include "module_check.h"

#include <errno.h>
#include <getopt.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_DIFFERENT = 1, EXIT_USAGE = 2, EXIT_NOT_NOTICED = 3 };

struct job {
    char *path;
    const char *label;
    off_t size;
};

struct options {
    VEC(struct job) jobs;
    unsigned workers;
    unsigned break_every;
    bool quiet;
    char vdso_path[32]; /* the vdso's copy, to be removed at the end, or "" */
};

/* What the processes share. */
enum { COUNTER_COUNT = sizeof(struct check_counts) / sizeof(uint64_t), MOST_WORKERS = 256 };

struct shared {
    atomic_size_t next_job;
    atomic_uint_least64_t counters[COUNTER_COUNT]; /* struct check_counts, summed up */
    struct {
        pid_t pid;
        size_t job; /* the current one */
    } workers[MOST_WORKERS];
};

static void complain(const char *label, const char *text)
{
    fprintf(stderr, "cfi_oracle: %s: %s\n", label, text);
}

/* Options */

static int add_job(struct options *o, const char *path, const char *label, bool is_listed)
{
    struct stat state = {0};
    if (!check_applies(path)) {
        if (!is_listed)
            complain(path, "is not an x86-64 program or shared object with .eh_frame");
        return is_listed ? CT_OK : CT_ERROR;
    }
    stat(path, &state);
    struct job job = {.path = must_strdup(path), .size = state.st_size};
    job.label = label ? label : job.path;
    vec_push(&o->jobs, job);
    return CT_OK;
}

static int add_list(struct options *o, const char *list)
{
    FILE *in = strcmp(list, "-") == 0 ? stdin : fopen(list, "r");
    if (in == NULL) {
        complain(list, strerror(errno));
        return CT_ERROR;
    }
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, in)) > 0) {
        if (line[length - 1] == '\n')
            line[length - 1] = '\0';
        add_job(o, line, NULL, true);
    }
    free(line);
    if (in != stdin)
        fclose(in);
    return CT_OK;
}

/* readelf and map_build want a file, so the vdso is copied to one. */
static int add_vdso(struct options *o)
{
    unsigned long start = getauxval(AT_SYSINFO_EHDR), from, to = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (maps != NULL && to == 0 && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || from != start)
            to = 0;
    if (maps != NULL)
        fclose(maps);
    if (start == 0 || to == 0) {
        complain("vdso", "this process has none");
        return CT_ERROR;
    }
    strcpy(o->vdso_path, "/tmp/cfi_oracle.XXXXXX");
    int fd = mkstemp(o->vdso_path);
    bool is_written =
        fd >= 0 && write(fd, (const void *)start, to - start) == (ssize_t)(to - start);
    if (fd >= 0)
        close(fd);
    if (!is_written) {
        complain(o->vdso_path, "cannot write the vdso");
        return CT_ERROR;
    }
    return add_job(o, o->vdso_path, "[vdso]", false);
}

static int usage(void)
{
    fprintf(stderr, "usage: cfi_oracle [--jobs N] [--list FILE] [--vdso] [--break N] [--quiet] "
                    "[ELF...]\n");
    return CT_ERROR;
}

static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        {"jobs", required_argument, NULL, 'j'},  {"list", required_argument, NULL, 'l'},
        {"break", required_argument, NULL, 'b'}, {"vdso", no_argument, NULL, 'v'},
        {"quiet", no_argument, NULL, 'q'},       {0},
    };
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o->workers = cores > 0 ? (unsigned)cores : 1;
    int option;
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 'j':
            o->workers = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            CT_TRY(add_list(o, optarg));
            break;
        case 'b':
            o->break_every = (unsigned)strtoul(optarg, NULL, 10);
            if (o->break_every == 0)
                return usage();
            break;
        case 'v':
            CT_TRY(add_vdso(o));
            break;
        case 'q':
            o->quiet = true;
            break;
        default:
            return usage();
        }
    }
    for (; optind < argc; optind++)
        CT_TRY(add_job(o, argv[optind], NULL, false));
    if (o->workers == 0 || o->workers > MOST_WORKERS)
        o->workers = 1;
    return CT_OK;
}

static int largest_first(const void *left, const void *right)
{
    const struct job *a = left, *b = right;
    return a->size > b->size ? -1 : a->size < b->size;
}

/* Working */

static void count(struct shared *shared, const struct check_counts *counts)
{
    const uint64_t *values = (const uint64_t *)counts;
    for (unsigned i = 0; i < COUNTER_COUNT; i++)
        atomic_fetch_add(&shared->counters[i], values[i]);
}

static void do_job(const struct options *o, const struct job *job, struct shared *shared)
{
    char *text = NULL;
    size_t size = 0;
    FILE *report = open_memstream(&text, &size);
    if (report == NULL)
        _exit(EXIT_DIFFERENT);
    struct check_request request = {job->path, job->label, o->break_every};
    struct check_counts counts = {0};
    struct ct_error err;
    if (check_module(&request, report, &counts, &err) != CT_OK) {
        counts.differences++;
        fprintf(report, "%s: cannot be compared: %s\n", job->label, err.text);
    }
    fclose(report);
    count(shared, &counts);
    /* At once, so that the lines of two processes do not mix. */
    if (!o->quiet && size > 0 && write(STDOUT_FILENO, text, size) != (ssize_t)size)
        _exit(EXIT_DIFFERENT);
    free(text);
}

static void work(const struct options *o, struct shared *shared, unsigned worker)
{
    size_t job;
    while ((job = atomic_fetch_add(&shared->next_job, 1)) < o->jobs.count) {
        shared->workers[worker].job = job;
        do_job(o, &o->jobs.items[job], shared);
    }
    _exit(0);
}

static bool start_worker(const struct options *o, struct shared *shared, unsigned worker)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        work(o, shared, worker);
    if (pid < 0)
        complain("fork", strerror(errno));
    shared->workers[worker].pid = pid;
    return pid > 0;
}

/* A process has ended. True when another one has taken its place because it died. */
static bool replace_if_dead(const struct options *o, struct shared *shared, pid_t pid, int status)
{
    unsigned worker = 0;
    while (worker < o->workers && shared->workers[worker].pid != pid)
        worker++;
    if (worker == o->workers || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return false;
    printf("%s: cannot be compared: the process died (%s)\n",
           o->jobs.items[shared->workers[worker].job].label,
           WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "with an exit status");
    count(shared, &(struct check_counts){.files = 1, .differences = 1});
    return start_worker(o, shared, worker);
}

static struct check_counts run_jobs(const struct options *o)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct check_counts sum = {0};
    if (shared == MAP_FAILED)
        return sum;
    unsigned alive = 0;
    for (unsigned i = 0; i < o->workers && i < o->jobs.count; i++)
        alive += start_worker(o, shared, i);
    while (alive > 0) {
        int status;
        pid_t pid = wait(&status);
        if (pid > 0 && !replace_if_dead(o, shared, pid, status))
            alive--;
    }
    for (unsigned i = 0; i < COUNTER_COUNT; i++)
        ((uint64_t *)&sum)[i] = atomic_load(&shared->counters[i]);
    munmap(shared, sizeof *shared);
    return sum;
}

static int sum_up(const struct options *o, const struct check_counts *c)
{
    if (o->break_every > 0)
        printf("broken rows %llu, noticed %llu\n", (unsigned long long)c->broken,
               (unsigned long long)c->noticed);
    printf("files %llu, rows %llu, unknown %llu, outside %llu, overlap %llu, differences %llu\n",
           (unsigned long long)c->files, (unsigned long long)c->rows,
           (unsigned long long)c->unknown, (unsigned long long)c->outside,
           (unsigned long long)c->overlap, (unsigned long long)c->differences);
    if (c->noticed < c->broken)
        return EXIT_NOT_NOTICED;
    return c->differences > 0 || c->rows == 0 ? EXIT_DIFFERENT : 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    int status;
    if (parse_options(argc, argv, &o) != CT_OK) {
        status = EXIT_USAGE;
    } else {
        if (o.jobs.count > 0)
            qsort(o.jobs.items, o.jobs.count, sizeof *o.jobs.items, largest_first);
        struct check_counts counts = run_jobs(&o);
        status = sum_up(&o, &counts);
    }
    if (*o.vdso_path)
        unlink(o.vdso_path);
    for (size_t i = 0; i < o.jobs.count; i++)
        free(o.jobs.items[i].path);
    vec_free(&o.jobs);
    return status;
}
