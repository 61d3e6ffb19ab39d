/*
 * calltrail info: what is in a profile.
 */
#include "cli/commands.h"

#include "cli/encoding_text.h"
#include "profile/profile.h"
#include "report/sheet.h"
#include "report/terminal.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail info [--all] [--json] [--check] [--encoding] [FILE]\n"
    "\n"
    "Prints what a profile holds: what ran, what was measured and how well, and the size of the\n"
    "tree. FILE is calltrail.ctp when it is not given.\n"
    "\n"
    "  --all    every fact, under the names that they have in the file\n"
    "  --json   everything, as JSON\n"
    "  --check  first check all of the file, byte by byte; a damaged file is an error\n"
    "  --encoding\n"
    "           how contexts were encoded (--engine encode), or would be by who knows all\n"
    "           calls before the program runs (--engine exact)\n"
    "  --help   this text\n";

struct options {
    const char *path;
    bool all;
    bool json;
    bool check;
    bool encoding;
};

/* On a terminal no line is longer than it is wide. */
static void print_text(const struct profile *profile, bool all)
{
    struct terminal terminal = terminal_open(COLOR_NEVER, false);
    char *text = NULL;
    size_t size = 0;
    FILE *held = isatty(STDOUT_FILENO) ? open_memstream(&text, &size) : NULL;
    profile_print_text(profile, all, held ? held : stdout);
    if (!held)
        return;
    fclose(held);
    char *at = text, *line;
    while ((line = strsep(&at, "\n")) && at)
        print_wrapped(stdout, line, terminal.columns);
    free(text);
}

static int print_profile(const struct options *options, struct ct_error *err)
{
    struct profile profile;
    CT_TRY(profile_open(options->path, &profile, err));
    int status =
        options->check ? profile_validate(&profile, err) : profile_validate_tables(&profile, err);
    if (status == CT_OK)
        status = profile_verify_values(&profile, CTP_NONE, err);
    if (status == CT_OK && options->encoding) {
        status = encoding_print(&profile, stdout, err);
    } else if (status == CT_OK) {
        if (options->json)
            profile_print_json(&profile, stdout);
        else
            print_text(&profile, options->all);
    }
    profile_close(&profile);
    return status;
}

int cmd_info(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"all", no_argument, NULL, 'a'},   {"json", no_argument, NULL, 'j'},
        {"check", no_argument, NULL, 'c'}, {"encoding", no_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},  {0},
    };
    struct options options = {.path = "calltrail.ctp"};
    optind = 1;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
        switch (option) {
        case 'a':
            options.all = true;
            break;
        case 'j':
            options.json = true;
            break;
        case 'c':
            options.check = true;
            break;
        case 'e':
            options.encoding = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        default:
            return option_error("info", argv);
        }
    }
    if (optind < argc)
        options.path = argv[optind++];
    if (optind < argc)
        return usage_error("info", "only one FILE is allowed: %s is too many", argv[optind]);

    struct ct_error err;
    return print_profile(&options, &err) == CT_OK ? finish_output() : report_error(&err);
}
