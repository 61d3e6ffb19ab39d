/*
 * calltrail export: a profile in the format of another tool.
 */
#include "cli/commands.h"

#include "base/file.h"
#include "export/export.h"

#include <getopt.h>
#include <malloc.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail export --to FORMAT [-o OUT] [--metric NAME] [--threads] [FILE]\n"
    "\n"
    "Writes a profile in the format of another tool. FILE is calltrail.ctp when it is not given.\n"
    "\n"
    "  --to folded    one line for each context: f1;f2;f3 value, outermost first; what flame\n"
    "                 graph tools read. Functions of the same name are the same there\n"
    "  -o OUT         file to write; standard output when it is not given\n"
    "  --metric NAME  default: the first of the profile\n"
    "  --threads      threads apart, the thread's name being the outermost frame\n"
    "  --no-inline    inlined functions are part of those that they were inlined into\n"
    "  --no-demangle  names as the linker has them\n"
    "  --help         this text\n";

struct options {
    const char *path;
    const char *format;
    const char *out;
    struct view_options view;
};

static int write_export(const struct view *view, const char *path, struct ct_error *err)
{
    if (!path) {
        export_folded(view, stdout);
        return CT_OK;
    }
    struct new_file file;
    CT_TRY(file_begin(path, &file, err));
    export_folded(view, file.stream);
    return file_commit(&file, err);
}

static int export_profile(const struct options *options, struct ct_error *err)
{
    struct profile profile;
    struct view view;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    CT_TRY(profile_open(options->path, &profile, err));
    int status = profile_validate_tables(&profile, err);
    if (status == CT_OK)
        status = view_open(&profile, &options->view, &view, err);
    if (status == CT_OK) {
        status = write_export(&view, options->out, err);
        view_close(&view);
    }
    profile_close(&profile);
    return status;
}

int cmd_export(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"to", required_argument, NULL, 't'},     {"output", required_argument, NULL, 'o'},
        {"metric", required_argument, NULL, 'm'}, {"threads", no_argument, NULL, 'T'},
        {"no-inline", no_argument, NULL, 'I'},    {"no-demangle", no_argument, NULL, 'D'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    struct options options = {.path = "calltrail.ctp", .view.labels.identity = LABEL_BY_NAME};
    optind = 1;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        switch (option) {
        case 't':
            options.format = optarg;
            break;
        case 'o':
            options.out = optarg;
            break;
        case 'm':
            options.view.metric = optarg;
            break;
        case 'T':
            options.view.grouping = GROUP_THREAD;
            break;
        case 'I':
            options.view.labels.fold_inlined = true;
            break;
        case 'D':
            options.view.labels.keep_mangled = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        case ':':
            return usage_error("export", "%s needs a value", argv[optind - 1]);
        default:
            return option_error("export", argv);
        }
    }
    if (!options.format)
        return usage_error("export", "to which format? Say --to folded");
    if (strcmp(options.format, "folded") != 0)
        return usage_error("export", "there is no format '%s'; there is: folded", options.format);
    if (optind < argc)
        options.path = argv[optind++];
    if (optind < argc)
        return usage_error("export", "one file at a time, please: %s is too many", argv[optind]);

    struct ct_error err;
    return export_profile(&options, &err) == CT_OK ? finish_output() : report_error(&err);
}
