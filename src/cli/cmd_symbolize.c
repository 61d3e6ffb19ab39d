/* calltrail symbolize: source lines and names for a profile from debug files that come later. */
#include "cli/commands.h"

#include "base/vec.h"
#include "names/fill.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: calltrail symbolize [FILE] [--debug-dir DIR]... [-o OUT]\n"
    "\n"
    "Looks up functions, source lines and inlined functions of a profile that was recorded\n"
    "where debug information was not installed. FILE is calltrail.ctp when it is not given,\n"
    "and is replaced unless OUT is.\n"
    "\n"
    "  --debug-dir DIR  a folder with debug files: DIR/.build-id/ab/cdef.debug as in "
    "/usr/lib/debug,\n"
    "                   or files with the names of the modules, with or without .debug. A file of\n"
    "                   another build is refused\n"
    "  -o, --output OUT the file to write\n"
    "  --help           this text\n";

/* A folder that is not there would have no debug files, and the user would not know why. */
static int check_folders(const struct debug_folders *folders, struct ct_error *err)
{
    for (size_t i = 0; i < folders->count; i++) {
        struct stat status;
        if (stat(folders->paths[i], &status) != 0)
            return ct_fail_errno(err, errno, "--debug-dir %s: cannot be read", folders->paths[i]);
        if (!S_ISDIR(status.st_mode))
            return ct_fail(err, "--debug-dir %s: is not a folder", folders->paths[i]);
    }
    return CT_OK;
}

int cmd_symbolize(int argc, char **argv)
{
    static const struct option options[] = {{"debug-dir", required_argument, NULL, 'd'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    const char *path = "calltrail.ctp", *output = NULL;
    VEC(const char *) folders = {0};
    int status = 0;
    opterr = 0;
    for (int option; !status && (option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'd':
            vec_push(&folders, optarg);
            break;
        case 'o':
            output = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            vec_free(&folders);
            return finish_output();
        case ':':
            status = usage_error("symbolize", "%s needs a value", argv[optind - 1]);
            break;
        default:
            status = option_error("symbolize", argv);
            break;
        }
    }
    if (!status && optind < argc)
        path = argv[optind++];
    if (!status && optind < argc)
        status = usage_error("symbolize", "only one FILE is allowed: %s is too many", argv[optind]);
    struct ct_error err;
    struct fill_result result;
    struct debug_folders where = {folders.items, folders.count};
    if (!status && (check_folders(&where, &err) != CT_OK ||
                    names_fill_file(path, output ? output : path, &where, &result, &err) != CT_OK))
        status = report_error(&err);
    else if (!status)
        printf("%u of %u places without a source line have one now; %u of %u modules have no debug "
               "information\n",
               result.located, result.places, result.without, result.modules);
    vec_free(&folders);
    return status ? status : finish_output();
}
