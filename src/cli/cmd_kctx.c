/*
 * calltrail kctx: the shortest chains of callers that explain the cost of hot functions, in a
 * profile or in a trace.
 */
#include "cli/commands.h"
#include "cli/time_options.h"

#include "query/replay_view.h"
#include "report/report.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail kctx [OPTIONS] [FILE]\n"
    "       calltrail kctx --replay TRACE [OPTIONS]\n"
    "\n"
    "For each hot function, where its cost comes from: the shortest chains of callers that "
    "explain\n"
    "most of it. FILE is calltrail.ctp when it is not given.\n"
    "\n"
    "  --fn NAME          this function only, hot or not: as it is shown, its base name, a part\n"
    "                     of its name that no other has, or an extended regular expression\n"
    "  --explain PCT      a chain explains a function if it has this share of the function's own\n"
    "                     cost, 50 to 100; default 80\n"
    "  --k K              callers of a chain at most, 1 to 1000; default 10\n"
    "  --metric NAME      default: the first of the profile\n"
    "  --from S, --to S   only what was sampled then, in seconds since the start\n"
    "  --keep-recursion   a function that calls itself is its own caller; without this, such\n"
    "                     calls are one\n"
    "  --replay TRACE     a trace of calls instead of a profile; the metric is calls\n"
    "  --sites            with --replay: calls from different places are told apart\n"
    "\n"
    "  --limit N          functions at most, the heaviest; default 10; 0 is all\n"
    "  --min-share PCT    functions with less are left out; default 0.5 in text\n"
    "  --full-names       names are not shortened, however long they are\n"
    "  --json, --csv      for programs; 1000 functions unless --limit says otherwise\n"
    "  --color WHEN       auto, always or never; auto heeds NO_COLOR\n"
    "  --no-pager         otherwise $PAGER or less, on a terminal\n"
    "  --help             this text\n";

enum { TEXT_FUNCTIONS = 10, MACHINE_FUNCTIONS = 1000, K_MAX = 1000 };
static const double TEXT_MIN_SHARE = 0.5;

struct options {
    const char *path, *trace, *metric;
    struct report_options report;
    struct time_range range;
    enum color_choice color;
    bool sites, k_given, limit_given, min_share_given, no_pager;
};

static bool parse_number(const char *text, double least, double most, bool whole, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (!whole && end != text && *end == '%')
        end++;
    return end != text && !*end && !errno && *text >= '0' && *text <= '9' && *out >= least &&
           *out <= most && (!whole || strspn(text, "0123456789") == strlen(text));
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    double number;
    switch (option) {
    case 'f':
        o->report.function = optarg;
        return 0;
    case 'e':
        if (!parse_number(optarg, 50, 100, false, &o->report.explain_percent))
            return usage_error("kctx", "--explain: '%s' is not from 50 to 100", optarg);
        return 0;
    case 'k':
        if (!parse_number(optarg, 1, K_MAX, true, &number))
            return usage_error("kctx", "--k: '%s' is not from 1 to %d callers", optarg, K_MAX);
        o->report.k = (uint32_t)number;
        o->k_given = true;
        return 0;
    case 'm':
        o->metric = optarg;
        return 0;
    case 'r':
        o->report.keep_recursion = true;
        return 0;
    case 't':
        o->trace = optarg;
        return 0;
    case 's':
        o->sites = true;
        return 0;
    case 'l':
        o->limit_given = true;
        if (!parse_number(optarg, 0, UINT32_MAX, true, &number))
            return usage_error("kctx", "--limit: '%s' is not a number of functions", optarg);
        o->report.limit = (uint32_t)number;
        return 0;
    case 'p':
        o->min_share_given = true;
        if (!parse_number(optarg, 0, 100, false, &o->report.min_share))
            return usage_error("kctx", "--min-share: '%s' is not from 0 to 100", optarg);
        return 0;
    case 'F':
        o->report.full_names = true;
        return 0;
    case 'j':
        o->report.format = SHEET_JSON;
        return 0;
    case 'c':
        o->report.format = SHEET_CSV;
        return 0;
    case OPTION_FROM:
    case OPTION_TO:
        return take_time_option("kctx", option, &o->range);
    case 'n':
        o->no_pager = true;
        return 0;
    default: {
        static const char *const colors[] = {"auto", "always", "never"};
        for (int i = 0; i < 3; i++)
            if (strcmp(optarg, colors[i]) == 0) {
                o->color = (enum color_choice)i;
                return 0;
            }
        return usage_error("kctx", "--color: '%s' is not auto, always or never", optarg);
    }
    }
}

static int settle(struct options *o, bool file_given)
{
    bool text = o->report.format == SHEET_TEXT;
    if (o->trace && file_given)
        return usage_error("kctx", "a profile or --replay, not both");
    if (o->trace && time_range_is_given(&o->range))
        return usage_error("kctx", "--from and --to are for profiles, not for --replay");
    if (o->sites && !o->trace)
        return usage_error("kctx", "--sites is for --replay");
    if (!o->limit_given)
        o->report.limit = text ? TEXT_FUNCTIONS : MACHINE_FUNCTIONS;
    if (!o->min_share_given && text)
        o->report.min_share = TEXT_MIN_SHARE;
    return 0;
}

static int print_view(const struct options *o, const struct view *view, struct ct_error *err)
{
    struct terminal terminal =
        terminal_open(o->color, o->report.format == SHEET_TEXT && !o->no_pager);
    int status = report_print(view, &o->report, &terminal, err);
    terminal_close(&terminal);
    return status;
}

static int explain_trace(const struct options *o, struct ct_error *err)
{
    struct replay_view replay;
    CT_TRY(replay_view_open(o->trace,
                            &(struct replay_options){.k = o->report.k,
                                                     .sites = o->sites,
                                                     .fold_recursion = !o->report.keep_recursion},
                            &replay, err));
    int status = CT_OK;
    if (o->metric && strcmp(o->metric, "calls") != 0)
        status = ct_fail(err, "there is no metric '%s' in a trace; there is: calls", o->metric);
    if (status == CT_OK)
        status = print_view(o, &replay.view, err);
    replay_view_close(&replay);
    return status;
}

static int explain_profile(const struct options *o, struct ct_error *err)
{
    struct profile profile;
    struct view view;
    struct view_options view_options = {.metric = o->metric};
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    CT_TRY(open_in_range(o->path, &o->range, o->metric, &profile, err));
    int status = view_open(&profile, &view_options, &view, err);
    if (status == CT_OK) {
        if (o->k_given && view.callers_kept && o->report.k > view.callers_kept)
            fprintf(stderr,
                    "calltrail kctx: %s was recorded with --k %" PRIu32
                    ": chains have at most that many callers, not %" PRIu32 "\n",
                    o->path, view.callers_kept, o->report.k);
        status = print_view(o, &view, err);
        view_close(&view);
    }
    profile_close(&profile);
    return status;
}

int cmd_kctx(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"fn", required_argument, NULL, 'f'},
        {"explain", required_argument, NULL, 'e'},
        {"k", required_argument, NULL, 'k'},
        {"metric", required_argument, NULL, 'm'},
        {"keep-recursion", no_argument, NULL, 'r'},
        {"replay", required_argument, NULL, 't'},
        {"sites", no_argument, NULL, 's'},
        {"limit", required_argument, NULL, 'l'},
        {"min-share", required_argument, NULL, 'p'},
        {"full-names", no_argument, NULL, 'F'},
        {"json", no_argument, NULL, 'j'},
        {"csv", no_argument, NULL, 'c'},
        {"no-pager", no_argument, NULL, 'n'},
        {"color", required_argument, NULL, 'o'},
        TIME_OPTIONS,
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options options = {
        .path = "calltrail.ctp",
        .report = {.kind = REPORT_KCTX, .explain_percent = REPORT_EXPLAIN_PERCENT, .k = REPORT_K}};
    optind = 1;
    opterr = 0;
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return finish_output();
        }
        status = option == '?'   ? option_error("kctx", argv)
                 : option == ':' ? usage_error("kctx", "%s needs a value", argv[optind - 1])
                                 : take_option(&options, option);
    }
    bool file_given = optind < argc;
    if (status == 0 && file_given)
        options.path = argv[optind++];
    if (status == 0 && optind < argc)
        status = usage_error("kctx", "only one FILE is allowed: %s is too many", argv[optind]);
    if (status == 0)
        status = settle(&options, file_given);
    struct ct_error err;
    if (status != 0)
        return status;
    status = options.trace ? explain_trace(&options, &err) : explain_profile(&options, &err);
    return status == CT_OK ? finish_output() : report_error(&err);
}
