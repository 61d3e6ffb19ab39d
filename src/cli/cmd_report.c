/*
 * calltrail report: where the cost of a profile comes from.
 */
#include "cli/commands.h"
#include "cli/time_options.h"

#include "report/report.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail report [OPTIONS] [FILE]\n"
    "\n"
    "Says where the cost of a profile comes from. FILE is calltrail.ctp when it is not given.\n"
    "\n"
    "views:\n"
    "  --view NAME        summary (the default), contexts, topdown, bottomup, flat, kctx,\n"
    "                     structure (module, file, function, line), threads, processes, phases,\n"
    "                     paths (of record --engine paths: hot paths with their lines)\n"
    "                     or ranks (of an MPI job); flame is the flame graph as SVG\n"
    "  --callers FN       who calls the function, and who calls those\n"
    "  --callees FN       what the function calls, in all contexts together\n"
    "  --lines FN         the function's source with the cost of every line\n"
    "  --asm              with --lines: its instructions\n"
    "  --source-dir DIR   with --lines: where sources are, if not where they were compiled\n"
    "  FN is a function as it is shown, its base name, a part of its name that no other has, or\n"
    "  an extended regular expression.\n"
    "\n"
    "what is looked at:\n"
    "  --metric NAME      default: the first of the profile\n"
    "  --thread T         threads of this name, pattern ('worker-*') or number\n"
    "  --process P        processes of this name, pattern or number\n"
    "  --phase NAME       the phase of this name or pattern\n"
    "  --from S, --to S   only what was sampled then, in seconds since the start\n"
    "  --idle             with wall: threads that only waited, and threads that wait for work, as\n"
    "                     they are; without it each of the two is one row\n"
    "\n"
    "refinements, applied one after the other in the order given:\n"
    "  --focus RE         keep contexts in which a function matches, or is called so\n"
    "  --ignore RE        drop them\n"
    "  --show-from RE     cut what is above the outermost match, drop contexts without one\n"
    "  --only-module P    fold frames of other modules into their callers; P is a file name\n"
    "                     pattern such as 'libc.so*', or several with commas\n"
    "  --fold-recursion   a function that is its own caller joins the caller's context\n"
    "\n"
    "functions:\n"
    "  --no-inline        inlined functions are part of those that they were inlined into\n"
    "  --full-names       names are not shortened, however long they are\n"
    "  --no-demangle      mangled names\n"
    "\n"
    "how much is shown (text by default leaves out what is small):\n"
    "  --min-share PCT    rows with less are left out\n"
    "  --limit N          at most N rows, the heaviest; 0 is all\n"
    "  --depth N          levels of a tree, innermost frames of a context; 0 is all\n"
    "  --hot-path         in a tree, follow only the heaviest branch\n"
    "  --returns          in topdown and callees of sampled time: how many calls that were under\n"
    "                     way at a sample have returned, and at most how long each took\n"
    "  --sort KEY         flat: self, total or name; trees: total or name\n"
    "\n"
    "output:\n"
    "  --json, --csv      for programs; 1000 rows unless --limit says otherwise\n"
    "  --color WHEN       auto, always or never; auto heeds NO_COLOR\n"
    "  --no-pager         otherwise $PAGER or less, on a terminal\n"
    "  --help             this text\n";

/* What is shown when nothing else is asked for. */
enum { TABLE_ROWS = 20, KCTX_ROWS = 10, TREE_ROWS = 60, MACHINE_ROWS = 1000 };
static const double TREE_MIN_SHARE = 0.5;

struct options {
    const char *path;
    struct view_options view;
    struct time_range range;
    struct report_options report;
    VEC(struct refinement) refinements;
    VEC(const char *) source_folders;
    enum color_choice color;
    bool kind_given, limit_given, min_share_given, no_pager;
};

enum {
    OPTION_VIEW = 256,
    OPTION_CALLERS,
    OPTION_CALLEES,
    OPTION_LINES,
    OPTION_ASM,
    OPTION_SOURCE_DIR,
    OPTION_METRIC,
    OPTION_THREAD,
    OPTION_PROCESS,
    OPTION_PHASE,
    OPTION_FOLD,
    OPTION_INLINE,
    OPTION_NO_INLINE,
    OPTION_NO_DEMANGLE,
    OPTION_FULL_NAMES,
    OPTION_MIN_SHARE,
    OPTION_LIMIT,
    OPTION_DEPTH,
    OPTION_HOT_PATH,
    OPTION_RETURNS,
    OPTION_IDLE,
    OPTION_SORT,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_COLOR,
    OPTION_NO_PAGER,
    OPTION_HELP,
    OPTION_REFINE, /* plus the refinement's kind; the last, therefore */
};

static const struct option long_options[] = {
    {"view", required_argument, NULL, OPTION_VIEW},
    {"callers", required_argument, NULL, OPTION_CALLERS},
    {"callees", required_argument, NULL, OPTION_CALLEES},
    {"lines", required_argument, NULL, OPTION_LINES},
    {"asm", no_argument, NULL, OPTION_ASM},
    {"source-dir", required_argument, NULL, OPTION_SOURCE_DIR},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"thread", required_argument, NULL, OPTION_THREAD},
    {"process", required_argument, NULL, OPTION_PROCESS},
    {"phase", required_argument, NULL, OPTION_PHASE},
    TIME_OPTIONS,
    {"focus", required_argument, NULL, OPTION_REFINE + REFINE_FOCUS},
    {"ignore", required_argument, NULL, OPTION_REFINE + REFINE_IGNORE},
    {"show-from", required_argument, NULL, OPTION_REFINE + REFINE_SHOW_FROM},
    {"only-module", required_argument, NULL, OPTION_REFINE + REFINE_ONLY_MODULE},
    {"fold-recursion", no_argument, NULL, OPTION_FOLD},
    {"inline", no_argument, NULL, OPTION_INLINE},
    {"no-inline", no_argument, NULL, OPTION_NO_INLINE},
    {"no-demangle", no_argument, NULL, OPTION_NO_DEMANGLE},
    {"full-names", no_argument, NULL, OPTION_FULL_NAMES},
    {"min-share", required_argument, NULL, OPTION_MIN_SHARE},
    {"limit", required_argument, NULL, OPTION_LIMIT},
    {"depth", required_argument, NULL, OPTION_DEPTH},
    {"hot-path", no_argument, NULL, OPTION_HOT_PATH},
    {"idle", no_argument, NULL, OPTION_IDLE},
    {"returns", no_argument, NULL, OPTION_RETURNS},
    {"sort", required_argument, NULL, OPTION_SORT},
    {"json", no_argument, NULL, OPTION_JSON},
    {"csv", no_argument, NULL, OPTION_CSV},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"no-pager", no_argument, NULL, OPTION_NO_PAGER},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

/* The place of a word in a list that ends with NULL, or -1. */
static int find_word(const char *word, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
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

static bool parse_share(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end != text && *end == '%')
        end++;
    return end != text && *end == '\0' && *out >= 0 && *out <= 100;
}

static int choose_kind(struct options *o, enum report_kind kind, const char *function)
{
    if (o->kind_given)
        return usage_error("report", "only one view is allowed");
    o->kind_given = true;
    o->report.kind = kind;
    o->report.function = function;
    return 0;
}

static int parse_view(struct options *o, const char *name)
{
    for (enum report_kind kind = 0; kind < REPORT_KINDS; kind++) {
        if (strcmp(name, report_name(kind)) != 0)
            continue;
        if (kind == REPORT_CALLERS || kind == REPORT_CALLEES || kind == REPORT_LINES)
            return usage_error("report", "--%s FN is required", name);
        return choose_kind(o, kind, NULL);
    }
    return usage_error("report", "there is no view '%s'", name);
}

/* What an option without an argument switches on; NULL: it is another one. */
static bool *flag_of(struct options *o, int option)
{
    switch (option) {
    case OPTION_ASM:
        return &o->report.assembly;
    case OPTION_NO_DEMANGLE:
        return &o->view.labels.keep_mangled;
    case OPTION_FULL_NAMES:
        return &o->report.full_names;
    case OPTION_HOT_PATH:
        return &o->report.hot_path;
    case OPTION_IDLE:
        return &o->report.with_idle;
    case OPTION_RETURNS:
        return &o->report.with_bounds;
    case OPTION_NO_PAGER:
        return &o->no_pager;
    default:
        return NULL;
    }
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    static const char *const colors[] = {"auto", "always", "never", NULL};
    static const char *const sorts[] = {"", "self", "total", "name", NULL};
    int word;
    bool *flag = flag_of(o, option);
    if (flag) {
        *flag = true;
        return 0;
    }
    switch (option) {
    case OPTION_VIEW:
        return parse_view(o, optarg);
    case OPTION_CALLERS:
        return choose_kind(o, REPORT_CALLERS, optarg);
    case OPTION_CALLEES:
        return choose_kind(o, REPORT_CALLEES, optarg);
    case OPTION_LINES:
        return choose_kind(o, REPORT_LINES, optarg);
    case OPTION_SOURCE_DIR:
        vec_push(&o->source_folders, optarg);
        return 0;
    case OPTION_METRIC:
        o->view.metric = optarg;
        return 0;
    case OPTION_THREAD:
        o->view.thread = optarg;
        return 0;
    case OPTION_PROCESS:
        o->view.process = optarg;
        return 0;
    case OPTION_PHASE:
        o->view.phase = optarg;
        return 0;
    case OPTION_FROM:
    case OPTION_TO:
        return take_time_option("report", option, &o->range);
    case OPTION_FOLD:
        vec_push(&o->refinements, (struct refinement){.kind = REFINE_FOLD_RECURSION});
        return 0;
    case OPTION_INLINE:
    case OPTION_NO_INLINE:
        o->view.labels.fold_inlined = option == OPTION_NO_INLINE;
        return 0;
    case OPTION_MIN_SHARE:
        o->min_share_given = true;
        if (!parse_share(optarg, &o->report.min_share))
            return usage_error("report", "--min-share: '%s' is not from 0 to 100", optarg);
        return 0;
    case OPTION_LIMIT:
        o->limit_given = true;
        if (!parse_number(optarg, &o->report.limit))
            return usage_error("report", "--limit: '%s' is not a number of rows", optarg);
        return 0;
    case OPTION_DEPTH:
        if (!parse_number(optarg, &o->report.depth_max))
            return usage_error("report", "--depth: '%s' is not a number of levels", optarg);
        return 0;
    case OPTION_SORT:
        if ((word = find_word(optarg, sorts)) <= 0)
            return usage_error("report", "--sort: '%s' is not self, total or name", optarg);
        o->report.sort = (enum report_sort)word;
        return 0;
    case OPTION_JSON:
        o->report.format = SHEET_JSON;
        return 0;
    case OPTION_CSV:
        o->report.format = SHEET_CSV;
        return 0;
    case OPTION_COLOR:
        if ((word = find_word(optarg, colors)) < 0)
            return usage_error("report", "--color: '%s' is not auto, always or never", optarg);
        o->color = (enum color_choice)word;
        return 0;
    default:
        vec_push(&o->refinements,
                 (struct refinement){(enum refine_kind)(option - OPTION_REFINE), optarg});
        return 0;
    }
}

static bool is_tree(enum report_kind kind)
{
    return kind == REPORT_TOPDOWN || kind == REPORT_BOTTOMUP || kind == REPORT_CALLERS ||
           kind == REPORT_CALLEES;
}

/* Options that do not go together, and those that were not given. */
static int settle(struct options *o)
{
    enum report_kind kind = o->report.kind;
    bool tree = is_tree(kind), text = o->report.format == SHEET_TEXT;
    if (o->report.hot_path && !tree)
        return usage_error("report",
                           "--hot-path is for trees: topdown, bottomup, callers, callees");
    if (o->report.sort != SORT_DEFAULT && kind != REPORT_FLAT && !tree)
        return usage_error("report", "--sort is for the flat view and for trees");
    if (kind == REPORT_FLAME && !text)
        return usage_error("report", "--view flame is SVG, not JSON or CSV");
    if (o->report.sort == SORT_SELF && tree)
        return usage_error("report", "--sort: trees are sorted by total or name");
    if (kind != REPORT_LINES && (o->report.assembly || o->source_folders.count))
        return usage_error("report", "--asm and --source-dir require --lines FN");
    for (size_t i = 0; i < o->refinements.count; i++)
        if (o->refinements.items[i].kind == REFINE_FOLD_RECURSION &&
            (kind == REPORT_LINES || kind == REPORT_STRUCTURE))
            return usage_error("report",
                               "--fold-recursion is not for %s: a line of a function is counted "
                               "once anyway",
                               kind == REPORT_LINES ? "--lines" : "--view structure");
    if (!o->limit_given)
        o->report.limit = kind == REPORT_FLAME               ? 0
                          : !text                            ? MACHINE_ROWS
                          : tree || kind == REPORT_STRUCTURE ? TREE_ROWS
                          : kind == REPORT_KCTX              ? KCTX_ROWS
                                                             : TABLE_ROWS;
    /* `calltrail kctx` has options for these. */
    o->report.explain_percent = REPORT_EXPLAIN_PERCENT;
    o->report.k = REPORT_K;
    if (!o->min_share_given && text && (tree || kind == REPORT_STRUCTURE))
        o->report.min_share = TREE_MIN_SHARE;
    o->report.sources = (struct source_folders){o->source_folders.items, o->source_folders.count};
    report_prepare(&o->report, &o->view);
    o->view.refinements = o->refinements.items;
    o->view.refinement_count = o->refinements.count;
    return 0;
}

static int print_report(const struct options *o, struct ct_error *err)
{
    struct profile profile;
    struct view view;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    CT_TRY(open_in_range(o->path, &o->range, o->view.metric, &profile, err));
    int status = CT_OK;
    if (o->report.kind == REPORT_SUMMARY) /* it has the totals of all metrics */
        status = profile_verify_values(&profile, CTP_NONE, err);
    if (status == CT_OK)
        status = view_open(&profile, &o->view, &view, err);
    if (status == CT_OK) {
        bool text = o->report.format == SHEET_TEXT && o->report.kind != REPORT_FLAME;
        struct terminal terminal = terminal_open(o->color, text && !o->no_pager);
        status = report_print(&view, &o->report, &terminal, err);
        terminal_close(&terminal);
        view_close(&view);
    }
    profile_close(&profile);
    return status;
}

static void free_options(struct options *o)
{
    vec_free(&o->refinements);
    vec_free(&o->source_folders);
}

int cmd_report(int argc, char **argv)
{
    struct options options = {.path = "calltrail.ctp"};
    optind = 1;
    opterr = 0;
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == OPTION_HELP || option == 'h') {
            fputs(usage, stdout);
            free_options(&options);
            return finish_output();
        }
        status = option == '?'   ? option_error("report", argv)
                 : option == ':' ? usage_error("report", "%s needs a value", argv[optind - 1])
                                 : take_option(&options, option);
    }
    if (status == 0 && optind < argc)
        options.path = argv[optind++];
    if (status == 0 && optind < argc)
        status = usage_error("report", "only one FILE is allowed: %s is too many", argv[optind]);
    if (status == 0)
        status = settle(&options);
    struct ct_error err;
    if (status == 0)
        status = print_report(&options, &err) == CT_OK ? finish_output() : report_error(&err);
    free_options(&options);
    return status;
}
