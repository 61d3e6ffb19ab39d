/*
 * calltrail merge: many profiles as one.
 */
#include "cli/commands.h"

#include "base/vec.h"
#include "profile/merge.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail merge -o OUT [--threads] FILE...\n"
    "\n"
    "Writes one profile that is the sum of many: of processes, runs or machines. The order of the\n"
    "files does not matter, and merged profiles can be merged again.\n"
    "\n"
    "  -o OUT     the profile to write\n"
    "  @LIST      in place of a FILE: the files that LIST names, one in each line; @- reads the\n"
    "             names from standard input\n"
    "  --threads  keep all processes and threads apart. Otherwise processes of the same program\n"
    "             are one, and in it threads of the same name\n"
    "  --help     this text\n";

struct options {
    const char *out;
    bool threads;
};

static int add_file(struct merge *merge, const char *path, struct ct_error *err)
{
    struct profile profile;
    CT_TRY(profile_open(path, &profile, err));
    int status = profile_validate(&profile, err);
    if (status == CT_OK)
        status = merge_add(merge, &profile, err);
    profile_close(&profile);
    return status;
}

static int add_listed(struct merge *merge, FILE *list, const char *name, uint32_t *count,
                      struct ct_error *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int status = CT_OK;
    while (status == CT_OK && (length = getline(&line, &room, list)) != -1) {
        if (length && line[length - 1] == '\n')
            line[--length] = '\0';
        if (length == 0)
            continue;
        status = add_file(merge, line, err);
        ++*count;
    }
    if (status == CT_OK && ferror(list))
        status = ct_fail_errno(err, errno, "%s: cannot be read", name);
    free(line);
    return status;
}

static int add_argument(struct merge *merge, const char *argument, uint32_t *count,
                        struct ct_error *err)
{
    if (*argument != '@') {
        ++*count;
        return add_file(merge, argument, err);
    }
    if (strcmp(argument, "@-") == 0)
        return add_listed(merge, stdin, "standard input", count, err);
    FILE *list = fopen(argument + 1, "r");
    if (!list)
        return ct_fail_errno(err, errno, "%s: cannot be read", argument + 1);
    int status = add_listed(merge, list, argument + 1, count, err);
    fclose(list);
    return status;
}

static int merge_files(const struct options *options, char **arguments, struct ct_error *err)
{
    struct merge *merge = merge_begin(options->threads);
    uint32_t count = 0;
    int status = CT_OK;
    for (char **argument = arguments; *argument && status == CT_OK; argument++)
        status = add_argument(merge, *argument, &count, err);
    if (status == CT_OK && count == 0)
        status = ct_fail(err, "the list is empty: there is nothing to merge");
    if (status == CT_OK)
        status = merge_write(merge, options->out, err);
    merge_free(merge);
    return status;
}

int cmd_merge(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"output", required_argument, NULL, 'o'},
        {"threads", no_argument, NULL, 'T'},
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
            options.threads = true;
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
        return usage_error("merge", "to which file? Say -o OUT");
    if (optind == argc)
        return usage_error("merge",
                           "which profiles? Name them, or @LIST, or @- for standard input");

    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    struct ct_error err;
    return merge_files(&options, argv + optind, &err) == CT_OK ? finish_output()
                                                               : report_error(&err);
}
