/*
 * calltrail html: the page of a profile as one file.
 */
#include "cli/commands.h"

#include "base/file.h"
#include "view/html.h"

#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail html [OPTIONS] [FILE] [OTHER]\n"
    "\n"
    "Writes a page with the profile in it: flame graphs, trees, functions, callers, contexts. It\n"
    "is one file that needs no network: open it in a browser, mail it, keep it. FILE is\n"
    "calltrail.ctp when it is not given. With OTHER the page compares FILE with it, the newer "
    "one.\n"
    "\n"
    "  -o, --output FILE  default: calltrail.html; - is standard output\n"
    "  --min-share PCT    contexts with less are drawn together; default: none, but so that at\n"
    "                     most 250,000 contexts are in the page\n"
    "  --source-dir DIR   where sources are, if not where they were compiled\n"
    "  --no-source        no lines of source and no instructions in the page\n"
    "  --no-demangle      mangled names\n"
    "  --help             this text\n";

enum { NODES_MAX = 250000, TIMES_MAX = 500000 };

struct options {
    const char *paths[2];
    size_t path_count;
    const char *out;
    struct page_options page;
    VEC(const char *) source_folders;
};

static int write_page(const struct profile *profiles, const struct options *o, struct ct_error *err)
{
    if (strcmp(o->out, "-") == 0)
        return html_write(profiles, o->path_count, &o->page, stdout, err);
    struct new_file file;
    CT_TRY(file_begin(o->out, &file, err));
    file_share(&file);
    int status = html_write(profiles, o->path_count, &o->page, file.stream, err);
    if (status == CT_OK)
        return file_commit(&file, err);
    file_abandon(&file);
    return status;
}

static int make_page(const struct options *o, struct ct_error *err)
{
    struct profile profiles[2];
    size_t open = 0;
    int status = CT_OK;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    for (; open < o->path_count && status == CT_OK; open++) {
        status = profile_open(o->paths[open], &profiles[open], err);
        if (status != CT_OK)
            break;
        status = profile_validate_tables(&profiles[open], err);
    }
    if (status == CT_OK)
        status = write_page(profiles, o, err);
    while (open)
        profile_close(&profiles[--open]);
    return status;
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    char *end;
    switch (option) {
    case 'o':
        o->out = optarg;
        return 0;
    case 's':
        o->page.cut.min_share = strtod(optarg, &end);
        o->page.cut.nodes_max = 0;
        if (end != optarg && *end == '%')
            end++;
        if (end == optarg || *end || !(o->page.cut.min_share >= 0) || o->page.cut.min_share > 100)
            return usage_error("html", "--min-share: '%s' is not from 0 to 100", optarg);
        return 0;
    case 'd':
        vec_push(&o->source_folders, optarg);
        return 0;
    case 'S':
        o->page.with_sources = false;
        return 0;
    default:
        o->page.keep_mangled = true;
        return 0;
    }
}

static int run(struct options *o)
{
    struct ct_error err;
    if (strcmp(o->out, "-") == 0 && isatty(STDOUT_FILENO))
        return usage_error("html", "a page is not written to a terminal: -o FILE is required");
    o->page.sources = (struct source_folders){o->source_folders.items, o->source_folders.count};
    if (make_page(o, &err) != CT_OK)
        return report_error(&err);
    if (strcmp(o->out, "-") != 0)
        printf("%s is written: open it in a browser\n", o->out);
    return finish_output();
}

int cmd_html(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"output", required_argument, NULL, 'o'},
        {"min-share", required_argument, NULL, 's'},
        {"source-dir", required_argument, NULL, 'd'},
        {"no-source", no_argument, NULL, 'S'},
        {"no-demangle", no_argument, NULL, 'D'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {
        .paths = {"calltrail.ctp"},
        .path_count = 1,
        .out = "calltrail.html",
        .page = {.cut = {.nodes_max = NODES_MAX}, .times_max = TIMES_MAX, .with_sources = true}};
    optind = 1;
    opterr = 0;
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            vec_free(&options.source_folders);
            return finish_output();
        }
        status = option == '?'   ? option_error("html", argv)
                 : option == ':' ? usage_error("html", "%s needs a value", argv[optind - 1])
                                 : take_option(&options, option);
    }
    if (status == 0 && argc - optind > 2)
        status =
            usage_error("html", "at most two files are allowed: %s is too many", argv[optind + 2]);
    for (size_t i = 0; status == 0 && optind < argc; i++) {
        options.paths[i] = argv[optind++];
        options.path_count = i + 1;
    }
    if (status == 0)
        status = run(&options);
    vec_free(&options.source_folders);
    return status;
}
