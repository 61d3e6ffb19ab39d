/*
 * calltrail-mpi: what calltrail does over the ranks of an MPI job. A program of its own, so that
 * calltrail needs no MPI.
 */
#include "mpi/reduce.h"

#include <dlfcn.h>
#include <getopt.h>
#include <link.h>
#include <malloc.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char usage[] =
    "usage: mpirun -n RANKS calltrail-mpi merge -o OUT [--threads] [--join-ranks] FILE...\n"
    "\n"
    "Writes one profile that is the sum of many, as calltrail merge does, to the byte; the ranks\n"
    "share the work. All ranks must see the files under the same names; rank 0 writes OUT.\n"
    "\n"
    "  -o OUT     the profile to write\n"
    "  @LIST      in place of a FILE: the files that LIST names, one in each line; @- reads the\n"
    "             names from the standard input of rank 0\n"
    "  --threads  keep all processes and threads apart\n"
    "  --join-ranks\n"
    "             the ranks of the measured job as one, too\n"
    "  --times    say what each rank did: files, bytes and seconds of each step of the tree, and\n"
    "             the most memory that it held\n"
    "  --help     this text\n"
    "  --version  the version of calltrail\n";

struct options {
    const char *out;
    struct merge_options merge;
    bool times, help, version;
    char **arguments;
};

static int rank_of_us(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

/* One rank speaks for all. */
static int say(int status, const char *text, const char *more)
{
    if (rank_of_us() != 0)
        return status;
    fputs("calltrail-mpi: ", stderr);
    for (const char *c = text; *c; c++)
        putc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, stderr);
    fprintf(stderr, "%s\n", more);
    return status;
}

static int usage_failure(const char *text)
{
    return say(2, text, " (see calltrail-mpi --help)");
}

static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
                                                 {"threads", no_argument, NULL, 'T'},
                                                 {"join-ranks", no_argument, NULL, 'R'},
                                                 {"times", no_argument, NULL, 't'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {"version", no_argument, NULL, 'V'},
                                                 {0}};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1;) {
        switch (option) {
        case 'o':
            o->out = optarg;
            break;
        case 'T':
            o->merge.keep_threads = true;
            break;
        case 'R':
            o->merge.join_ranks = true;
            break;
        case 't':
            o->times = true;
            break;
        case 'h':
            o->help = true;
            return 0;
        case 'V':
            o->version = true;
            return 0;
        case ':':
            return usage_failure("an option needs a value");
        default:
            return usage_failure("unknown option");
        }
    }
    if (optind == argc || strcmp(argv[optind], "merge") != 0)
        return usage_failure("there is one command: merge");
    o->arguments = argv + optind + 1;
    if (!o->out)
        return usage_failure("merge: -o OUT is required");
    return *o->arguments ? 0 : usage_failure("merge: a FILE, @LIST or @- is required");
}

/* Rank 0 reads the list: standard input is there only, and lists may be. */
static int read_list(char **arguments, struct file_list *files, struct ct_error *err)
{
    int status = CT_OK;
    for (char **argument = arguments; *argument && status == CT_OK; argument++)
        status = file_list_add(files, *argument, err);
    if (status == CT_OK && !files->paths.count)
        status = ct_fail(err, "the list is empty: there is nothing to merge");
    return status;
}

/* Gives all ranks the list of rank 0, as texts one behind the other; or its failure. */
static int share_list(struct file_list *files, int status)
{
    uint64_t header[2] = {(uint64_t)status, 0};
    VEC(char) texts = {0};
    for (size_t i = 0; i < files->paths.count && status == CT_OK; i++)
        for (const char *c = files->paths.items[i];; c++) {
            vec_push(&texts, *c);
            if (!*c)
                break;
        }
    header[1] = texts.count;
    MPI_Bcast(header, sizeof header, MPI_BYTE, 0, MPI_COMM_WORLD);
    vec_reserve(&texts, header[1] + 1);
    const uint64_t piece = 1 << 20;
    for (uint64_t at = 0; at < header[1]; at += piece)
        MPI_Bcast(texts.items + at, (int)(header[1] - at < piece ? header[1] - at : piece),
                  MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank_of_us() != 0)
        for (uint64_t at = 0; at < header[1]; at += strlen(texts.items + at) + 1)
            vec_push(&files->paths, must_strdup(texts.items + at));
    vec_free(&texts);
    return (int)header[0];
}

static void print_times(const struct reduce_times *times, double write_s)
{
    struct rusage used;
    char text[4096];
    int length = snprintf(text, sizeof text, "rank %d: %u files in %.3f s", rank_of_us(),
                          times->files, times->share_s);
    getrusage(RUSAGE_SELF, &used);
    for (uint32_t i = 0; i < times->steps && length < (int)sizeof text - 256; i++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "; step %u: %llu bytes, transfer %.3f s, work %.3f s", i + 1,
                           (unsigned long long)times->step[i].bytes, times->step[i].transfer_s,
                           times->step[i].work_s);
    fprintf(stderr, "%s; writing %.3f s; peak %ld KB\n", text, write_s, used.ru_maxrss);
}

static int write_sum(struct merge *merge, const char *path, struct profile_writer **out,
                     struct ct_error *err)
{
    CT_TRY(profile_writer_open(path, out, err));
    merge_fill(merge, *out);
    return profile_writer_finish(*out, err);
}

/*
 * Rank 0 writes the sum. It has no name until every rank has said that it is still there: if one is
 * killed before, mpirun ends all of them, and there is no output.
 */
static int write_output(struct merge *merge, const char *path, int status, struct ct_error *err)
{
    struct profile_writer *writer = NULL;
    bool is_root = rank_of_us() == 0;
    if (is_root && status == CT_OK)
        status = write_sum(merge, path, &writer, err);
    MPI_Barrier(MPI_COMM_WORLD);
    return is_root && status == CT_OK ? profile_writer_commit(writer, err) : status;
}

static int merge_all(const struct options *o, const struct file_list *files, struct ct_error *err)
{
    struct merge *merge = merge_begin(&o->merge);
    struct reduce_times times;
    int status = reduce_files(merge, files, &times, err);
    double start_s = MPI_Wtime();
    status = write_output(merge, o->out, status, err);
    if (o->times)
        print_times(&times, MPI_Wtime() - start_s);
    merge_free(merge);
    return status;
}

static int run(const struct options *o)
{
    struct file_list files = {0};
    struct ct_error err = {.text = ""};
    int status = rank_of_us() == 0 ? read_list(o->arguments, &files, &err) : CT_OK;
    status = share_list(&files, status);
    if (status == CT_OK)
        status = merge_all(o, &files, &err);
    if (status != CT_OK)
        say(1, err.text, "");
    /* The status of the job is that of rank 0, which has seen the failures of all. */
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    file_list_free(&files);
    return status == CT_OK ? 0 : 1;
}

struct paths {
    VEC(char *) items;
};

static int take_path(struct dl_phdr_info *info, size_t size, void *context)
{
    struct paths *paths = context;
    (void)size;
    if (*info->dlpi_name == '/')
        vec_push(&paths->items, must_strdup(info->dlpi_name));
    return 0;
}

/* MPI_Finalize of Open MPI unloads its components, one of whose threads may still be running in
 * them (seen with Open MPI 4.1.4 and PMIx 4.2.2 on a loaded machine): they stay where they are. */
static void keep_libraries(void)
{
    struct paths paths = {0};
    dl_iterate_phdr(take_path, &paths);
    for (size_t i = 0; i < paths.items.count; i++) {
        // cppcheck-suppress leakReturnValNotUsed
        dlopen(paths.items.items[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
        free(paths.items.items[i]);
    }
    vec_free(&paths.items);
}

int main(int argc, char **argv)
{
    signal(SIGXFSZ, SIG_IGN);
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    MPI_Init(&argc, &argv);
    struct options options = {0};
    int status = read_options(argc, argv, &options);
    if (status == 0 && (options.help || options.version)) {
        if (rank_of_us() == 0)
            fputs(options.help ? usage : "calltrail-mpi " CALLTRAIL_VERSION "\n", stdout);
    } else if (status == 0) {
        status = run(&options);
    }
    keep_libraries();
    MPI_Finalize();
    return status;
}
