/*
 * calltrail import: a profile that another tool made, as one of ours.
 */
#include "cli/commands.h"

#include "base/file.h"
#include "import/import.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail import [--from FORMAT] [-o OUT] FILE\n"
    "\n"
    "Makes a profile of what another tool measured, so that report and export work on it. FILE is "
    "-\n"
    "for standard input.\n"
    "\n"
    "  --from folded  stacks, one on a line: f1;f2;f3 value, outermost first\n"
    "  --from perf    what `perf script` prints; each event is a metric\n"
    "  --from pprof   profile.proto, gzipped or not: what Go and pprof write\n"
    "  --from auto    recognized by its content (default)\n"
    "  -o OUT         file to write; calltrail.ctp when it is not given\n"
    "  --metric NAME  what folded stacks count; default: samples. Of the others, the metric that\n"
    "                 comes first\n"
    "  --unit UNIT    of folded stacks: ns, bytes or what you like; default: samples\n"
    "  --help         this text\n";

struct options {
    const char *path;
    const char *out;
    struct import_options import;
};

static int read_all(int fd, const char *name, struct mapped_file *out, struct ct_error *err)
{
    VEC(uint8_t) all = {0};
    ssize_t size;
    do {
        vec_reserve(&all, all.count + (1 << 16));
        size = read(fd, all.items + all.count, 1 << 16);
        all.count += size > 0 ? (size_t)size : 0;
    } while (size > 0 || (size < 0 && errno == EINTR));
    *out = (struct mapped_file){.bytes = all.items, .size = all.count};
    if (size == 0)
        return CT_OK;
    free(all.items);
    return ct_fail_errno(err, errno, "%s: cannot be read", name);
}

static int import_and_write(const struct options *options, const struct mapped_file *file,
                            const char *name, struct ct_error *err)
{
    struct gather g;
    int status = import_bytes(file->bytes, file->size, name, &options->import, &g, err);
    if (status == CT_OK)
        status = gather_write(&g, options->out, err);
    if (status == CT_OK && g.skipped)
        fprintf(stderr, "calltrail: note: %" PRIu64 " lines of %s were not understood\n", g.skipped,
                name);
    gather_free(&g);
    return status;
}

static int import_path(const struct options *options, struct ct_error *err)
{
    struct mapped_file file;
    int status;
    if (strcmp(options->path, "-") == 0) {
        CT_TRY(read_all(STDIN_FILENO, "standard input", &file, err));
        status = import_and_write(options, &file, "standard input", err);
        free((void *)(uintptr_t)file.bytes);
    } else {
        CT_TRY(file_map(options->path, &file, err));
        status = import_and_write(options, &file, options->path, err);
        file_unmap(&file);
    }
    return status;
}

int cmd_import(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"from", required_argument, NULL, 'f'},   {"output", required_argument, NULL, 'o'},
        {"metric", required_argument, NULL, 'm'}, {"unit", required_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    struct options options = {.out = "calltrail.ctp"};
    uint32_t format = IMPORT_AUTO;
    optind = 1;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        switch (option) {
        case 'f':
            format = import_find_format(optarg);
            if (format == CTP_NONE)
                return usage_error("import",
                                   "there is no format '%s'; there are: auto, folded, perf, pprof",
                                   optarg);
            break;
        case 'o':
            options.out = optarg;
            break;
        case 'm':
            options.import.metric = optarg;
            break;
        case 'u':
            options.import.unit = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        case ':':
            return usage_error("import", "%s needs a value", argv[optind - 1]);
        default:
            return option_error("import", argv);
        }
    }
    options.import.format = (enum import_format)format;
    if (optind == argc)
        return usage_error("import", "a FILE is required");
    options.path = argv[optind++];
    if (optind < argc)
        return usage_error("import", "only one FILE is allowed: %s is too many", argv[optind]);

    struct ct_error err;
    return import_path(&options, &err) == CT_OK ? 0 : report_error(&err);
}
