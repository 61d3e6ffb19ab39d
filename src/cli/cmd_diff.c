/*
 * calltrail diff: what changed from one profile to another.
 */
#include "cli/commands.h"
#include "cli/time_options.h"

#include "report/report_diff.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail diff [OPTIONS] OLDER NEWER\n"
    "\n"
    "Says what grew, shrank, came and went from one profile to the next, greatest change first.\n"
    "Functions are matched by module and name, so the program may have been rebuilt. Sampled\n"
    "values have an error, and what it explains is not reported.\n"
    "\n"
    "  --by WHAT        function (the default: self and total of each) or context (call paths)\n"
    "  --normalize      compare parts of the total instead of amounts: for runs of different\n"
    "                   length\n"
    "  --metric NAME    default: the first of OLDER\n"
    "  --from S, --to S only what was sampled then, in seconds since the start of each\n"
    "  --min PCT        leave out what is less than this in both\n"
    "  --all            what did not change as well\n"
    "  --limit N        at most N rows; 0 is all\n"
    "  --fail-over PCT  exit status 3 if the total or anything that is reported grew by more\n"
    "  --full-names     names are not shortened, however long they are\n"
    "  --json, --csv    for programs; 1000 rows unless --limit says otherwise\n"
    "  --color WHEN     auto, always or never\n"
    "  --no-pager       otherwise $PAGER or less, on a terminal\n"
    "  --help           this text\n";

enum { TEXT_ROWS = 20, MACHINE_ROWS = 1000, STATUS_OVER = 3 };

struct options {
    const char *paths[2];
    const char *const *names; /* of the two sides, for messages; NULL: their paths */
    struct diff_options diff;
    enum sheet_format format;
    enum color_choice color;
    struct time_range range;
    double fail_over; /* in %; below 0: not asked for */
    bool limit_given, full_names, no_pager;
};

static bool parse_percent(const char *text, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && *end == '%')
        end++;
    return end != text && *end == '\0' && *out >= 0 && *out <= most;
}

static bool parse_number(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number >= UINT32_MAX)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    static const char *const colors[] = {"auto", "always", "never"};
    switch (option) {
    case 'b':
        if (strcmp(optarg, "function") != 0 && strcmp(optarg, "context") != 0)
            return usage_error("diff", "--by: '%s' is not function or context", optarg);
        o->diff.by = *optarg == 'f' ? DIFF_FUNCTIONS : DIFF_CONTEXTS;
        return 0;
    case 'n':
        o->diff.normalize = true;
        return 0;
    case 'm':
        o->diff.metric = optarg;
        return 0;
    case 's':
        if (!parse_percent(optarg, 100, &o->diff.min_share))
            return usage_error("diff", "--min: '%s' is not from 0 to 100", optarg);
        return 0;
    case 'a':
        o->diff.all = true;
        return 0;
    case 'l':
        o->limit_given = true;
        if (!parse_number(optarg, &o->diff.limit))
            return usage_error("diff", "--limit: '%s' is not a number of rows", optarg);
        return 0;
    case 'f':
        if (!parse_percent(optarg, 1e9, &o->fail_over))
            return usage_error("diff", "--fail-over: '%s' is not a number of per cent", optarg);
        return 0;
    case 'F':
        o->full_names = true;
        return 0;
    case 'j':
        o->format = SHEET_JSON;
        return 0;
    case 'c':
        o->format = SHEET_CSV;
        return 0;
    case OPTION_FROM:
    case OPTION_TO:
        return take_time_option("diff", option, &o->range);
    case 'C':
        for (size_t i = 0; i < 3; i++) {
            if (strcmp(optarg, colors[i]) == 0) {
                o->color = (enum color_choice)i;
                return 0;
            }
        }
        return usage_error("diff", "--color: '%s' is not auto, always or never", optarg);
    default:
        o->no_pager = true;
        return 0;
    }
}

static int open_side(const struct options *o, int side, struct profile *out, struct ct_error *err)
{
    CT_TRY(open_in_range(o->paths[side], &o->range, o->diff.metric, out, err));
    if (o->names) {
        free(out->name);
        out->name = must_strdup(o->names[side]);
    }
    return CT_OK;
}

/* Sets the exit status. */
static int print_diff(const struct options *o, const struct profile *older,
                      const struct profile *newer, int *exit_status, struct ct_error *err)
{
    struct diff diff;
    CT_TRY(diff_open(older, newer, &o->diff, &diff, err));
    bool text = o->format == SHEET_TEXT;
    struct terminal terminal = terminal_open(o->color, text && !o->no_pager);
    terminal.full_names = o->full_names;
    report_diff(&diff, &o->diff, o->format, &terminal);
    bool over = o->fail_over >= 0 && diff_grew_over(&diff, &o->diff, o->fail_over);
    if (over && text)
        fprintf(terminal.out, "Over the limit: something grew by more than %g%%.\n", o->fail_over);
    terminal_close(&terminal);
    diff_close(&diff);
    *exit_status = over ? STATUS_OVER : 0;
    return CT_OK;
}

static int compare(const struct options *o, int *exit_status, struct ct_error *err)
{
    struct profile older, newer;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    CT_TRY(open_side(o, 0, &older, err));
    int status = open_side(o, 1, &newer, err);
    if (status == CT_OK) {
        status = print_diff(o, &older, &newer, exit_status, err);
        profile_close(&newer);
    }
    profile_close(&older);
    return status;
}

int diff_named(int argc, char **argv, const char *const names[2])
{
    static const struct option long_options[] = {
        {"by", required_argument, NULL, 'b'},
        {"normalize", no_argument, NULL, 'n'},
        {"metric", required_argument, NULL, 'm'},
        {"min", required_argument, NULL, 's'},
        {"all", no_argument, NULL, 'a'},
        {"limit", required_argument, NULL, 'l'},
        {"fail-over", required_argument, NULL, 'f'},
        {"full-names", no_argument, NULL, 'F'},
        {"json", no_argument, NULL, 'j'},
        {"csv", no_argument, NULL, 'c'},
        {"color", required_argument, NULL, 'C'},
        {"no-pager", no_argument, NULL, 'p'},
        TIME_OPTIONS,
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {.fail_over = -1, .names = names};
    optind = 1;
    opterr = 0;
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return finish_output();
        }
        status = option == '?'   ? option_error("diff", argv)
                 : option == ':' ? usage_error("diff", "%s needs a value", argv[optind - 1])
                                 : take_option(&options, option);
    }
    if (status)
        return status;
    if (argc - optind != 2)
        return usage_error("diff", "two profiles are required: the older one, then the newer one");
    options.paths[0] = argv[optind];
    options.paths[1] = argv[optind + 1];
    if (!options.limit_given)
        options.diff.limit = options.format == SHEET_TEXT ? TEXT_ROWS : MACHINE_ROWS;

    struct ct_error err;
    int exit_status = 0;
    if (compare(&options, &exit_status, &err) != CT_OK)
        return report_error(&err);
    status = finish_output();
    return status ? status : exit_status;
}

int cmd_diff(int argc, char **argv)
{
    return diff_named(argc, argv, NULL);
}
