/*
 * calltrail export: a profile in the format of another tool.
 */
#include "cli/commands.h"

#include "base/file.h"
#include "cli/time_options.h"
#include "export/export.h"

#include <getopt.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail export --to FORMAT [-o OUT] [OPTIONS] [FILE]\n"
    "\n"
    "Writes a profile in the format of another tool. FILE is calltrail.ctp when it is not given.\n"
    "\n";

static const char usage_options[] =
    "\n"
    "  -o OUT         file to write; standard output when it is not given, or is -\n"
    "  --metric NAME  default: the first of the profile. pprof, sqlite and json have all metrics,\n"
    "                 this one first\n"
    "  --from S, --to S\n"
    "                 only what was sampled then, in seconds since the start: a number after\n"
    "                 --to is a time\n"
    "  --threads      threads apart; they are merged otherwise\n"
    "  --no-inline    without functions that were inlined; they are frames otherwise\n"
    "  --no-demangle  mangled names\n"
    "  --help         this text\n";

struct options {
    const char *path;
    const struct export_format *format;
    const char *out; /* NULL: standard output */
    struct export_options export;
    struct time_range range;
};

static void print_usage(void)
{
    fputs(usage, stdout);
    for (const struct export_format *format = export_formats; format->name; format++)
        printf("  --to %-10s %s\n", format->name, format->about);
    fputs(usage_options, stdout);
}

static int write_export(const struct profile *profile, const struct options *options,
                        struct ct_error *err)
{
    if (!options->out)
        return export_profile(profile, options->format, &options->export, stdout, err);
    struct new_file file;
    CT_TRY(file_begin(options->out, &file, err));
    file_share(&file);
    int status = export_profile(profile, options->format, &options->export, file.stream, err);
    if (status == CT_OK)
        return file_commit(&file, err);
    file_abandon(&file);
    return status;
}

static int open_and_export(const struct options *options, struct ct_error *err)
{
    struct profile profile;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    CT_TRY(open_in_range(options->path, &options->range, options->export.metric, &profile, err));
    int status = write_export(&profile, options, err);
    profile_close(&profile);
    if (status == CT_OK && options->format->loses)
        fprintf(stderr, "calltrail: note: %s\n", options->format->loses);
    return status;
}

static int unknown_format(const char *name)
{
    char names[128] = "";
    for (const struct export_format *format = export_formats; format->name; format++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", *names ? ", " : "",
                 format->name);
    if (!name)
        return usage_error("export", "--to FORMAT is required: %s", names);
    return usage_error("export", "there is no format '%s'; there are: %s", name, names);
}

int cmd_export(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"to", required_argument, NULL, 't'},
        {"output", required_argument, NULL, 'o'},
        {"metric", required_argument, NULL, 'm'},
        {"threads", no_argument, NULL, 'T'},
        {"no-inline", no_argument, NULL, 'I'},
        {"no-demangle", no_argument, NULL, 'D'},
        {"from", required_argument, NULL, OPTION_FROM},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {.path = "calltrail.ctp"};
    const char *format = NULL;
    optind = 1;
    opterr = 0;
    int option, status;
    uint64_t us;
    while ((option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        switch (option) {
        case 't': /* the format, or a time */
            if (!time_range_parse(optarg, &us))
                format = optarg;
            else
                take_time_option("export", OPTION_TO, &options.range);
            break;
        case OPTION_FROM:
            if ((status = take_time_option("export", option, &options.range)) != 0)
                return status;
            break;
        case 'o':
            options.out = strcmp(optarg, "-") == 0 ? NULL : optarg;
            break;
        case 'm':
            options.export.metric = optarg;
            break;
        case 'T':
            options.export.threads = true;
            break;
        case 'I':
            options.export.no_inline = true;
            break;
        case 'D':
            options.export.no_demangle = true;
            break;
        case 'h':
            print_usage();
            return finish_output();
        case ':':
            return usage_error("export", "%s needs a value", argv[optind - 1]);
        default:
            return option_error("export", argv);
        }
    }
    options.format = format ? export_find(format) : NULL;
    if (!options.format)
        return unknown_format(format);
    if (optind < argc)
        options.path = argv[optind++];
    if (optind < argc)
        return usage_error("export", "only one FILE is allowed: %s is too many", argv[optind]);
    if (options.format->binary && !options.out && isatty(STDOUT_FILENO))
        return usage_error("export", "%s is not written to a terminal: -o FILE is required",
                           options.format->name);

    struct ct_error err;
    return open_and_export(&options, &err) == CT_OK ? finish_output() : report_error(&err);
}
