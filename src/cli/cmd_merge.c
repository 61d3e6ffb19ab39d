/*
 * calltrail merge: many profiles as one.
 */
#include "cli/commands.h"

#include "profile/merge_files.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail merge -o OUT [--threads] [--join-ranks] FILE...\n"
    "\n"
    "Writes one profile that is the sum of many: of processes, runs or machines. The order of the\n"
    "files does not matter, and merged profiles can be merged again.\n"
    "\n"
    "  -o OUT     the profile to write\n"
    "  @LIST      in place of a FILE: the files that LIST names, one in each line; @- reads the\n"
    "             names from standard input\n"
    "  --threads  keep all processes and threads apart. Otherwise processes of the same program\n"
    "             are one, and in it threads of the same name\n"
    "  --join-ranks\n"
    "             the ranks of an MPI job as one, too. Otherwise processes of different ranks "
    "stay\n"
    "             apart, as report --view ranks needs it\n"
    "  --help     this text\n";

struct options {
    const char *out;
    struct merge_options merge;
};

static int merge_files(const struct options *options, const struct file_list *files,
                       struct ct_error *err)
{
    struct merge *merge = merge_begin(&options->merge);
    int status =
        files->paths.count ? CT_OK : ct_fail(err, "the list is empty: there is nothing to merge");
    for (size_t i = 0; i < files->paths.count && status == CT_OK; i++)
        status = merge_file(merge, files->paths.items[i], err);
    if (status == CT_OK)
        status = merge_write(merge, options->out, err);
    merge_free(merge);
    return status;
}

static int merge_arguments(const struct options *options, char **arguments, struct ct_error *err)
{
    struct file_list files = {0};
    int status = CT_OK;
    for (char **argument = arguments; *argument && status == CT_OK; argument++)
        status = file_list_add(&files, *argument, err);
    if (status == CT_OK)
        status = merge_files(options, &files, err);
    file_list_free(&files);
    return status;
}

int cmd_merge(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"output", required_argument, NULL, 'o'},
        {"threads", no_argument, NULL, 'T'},
        {"join-ranks", no_argument, NULL, 'R'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {0};
    optind = 1;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        switch (option) {
        case 'o':
            options.out = optarg;
            break;
        case 'T':
            options.merge.keep_threads = true;
            break;
        case 'R':
            options.merge.join_ranks = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        case ':':
            return usage_error("merge", "%s needs a value", argv[optind - 1]);
        default:
            return option_error("merge", argv);
        }
    }
    if (!options.out)
        return usage_error("merge", "-o OUT is required");
    if (optind == argc)
        return usage_error("merge",
                           "profiles are required: FILES, @LIST, or @- for standard input");

    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    struct ct_error err;
    return merge_arguments(&options, argv + optind, &err) == CT_OK ? finish_output()
                                                                   : report_error(&err);
}
