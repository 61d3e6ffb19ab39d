/*
 * calltrail top: a profile in a terminal, to look around in.
 */
#include "cli/commands.h"

#include "browse/browser.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail top [OPTIONS] [FILE]\n"
    "\n"
    "Looks around in a profile, in the terminal: lists of functions that are opened and folded,\n"
    "searched and zoomed into. h shows the keys, q leaves. FILE is calltrail.ctp when it is not\n"
    "given.\n"
    "\n"
    "  --view NAME        what is shown first: functions (the default), callees (top down),\n"
    "                     callers (bottom up) or threads\n"
    "  --metric NAME      default: the first of the profile\n"
    "  --thread T         threads of this name, pattern ('worker-*') or number\n"
    "  --process P        processes of this name, pattern or number\n"
    "  --phase NAME       the phase of this name or pattern\n"
    "  --idle             with wall: threads that only waited, and threads that wait for work, as\n"
    "                     they are; without it each of the two is one row\n"
    "  --focus RE         keep contexts in which a function matches, or is called so\n"
    "  --ignore RE        drop them\n"
    "  --show-from RE     cut what is above the outermost match, drop contexts without one\n"
    "  --only-module P    fold frames of other modules into their callers\n"
    "  --fold-recursion   a function that is its own caller joins the caller's context\n"
    "  --no-inline        inlined functions are part of those that they were inlined into\n"
    "  --no-demangle      mangled names\n"
    "  --full-names       names are not shortened\n"
    "  --source-dir DIR   where sources are, if not where they were compiled\n"
    "  --color WHEN       auto, always or never; auto heeds NO_COLOR\n"
    "  --help             this text\n";

struct options {
    const char *path;
    struct browser_options browser;
    VEC(struct refinement) refinements;
    VEC(const char *) source_folders;
};

enum {
    OPTION_VIEW = 256,
    OPTION_METRIC,
    OPTION_THREAD,
    OPTION_PROCESS,
    OPTION_PHASE,
    OPTION_IDLE,
    OPTION_NO_INLINE,
    OPTION_NO_DEMANGLE,
    OPTION_FULL_NAMES,
    OPTION_SOURCE_DIR,
    OPTION_COLOR,
    OPTION_REFINE, /* plus the refinement's kind; the last, therefore */
};

static const struct option long_options[] = {
    {"view", required_argument, NULL, OPTION_VIEW},
    {"metric", required_argument, NULL, OPTION_METRIC},
    {"thread", required_argument, NULL, OPTION_THREAD},
    {"process", required_argument, NULL, OPTION_PROCESS},
    {"phase", required_argument, NULL, OPTION_PHASE},
    {"idle", no_argument, NULL, OPTION_IDLE},
    {"focus", required_argument, NULL, OPTION_REFINE + REFINE_FOCUS},
    {"ignore", required_argument, NULL, OPTION_REFINE + REFINE_IGNORE},
    {"show-from", required_argument, NULL, OPTION_REFINE + REFINE_SHOW_FROM},
    {"only-module", required_argument, NULL, OPTION_REFINE + REFINE_ONLY_MODULE},
    {"fold-recursion", no_argument, NULL, OPTION_REFINE + REFINE_FOLD_RECURSION},
    {"no-inline", no_argument, NULL, OPTION_NO_INLINE},
    {"no-demangle", no_argument, NULL, OPTION_NO_DEMANGLE},
    {"full-names", no_argument, NULL, OPTION_FULL_NAMES},
    {"source-dir", required_argument, NULL, OPTION_SOURCE_DIR},
    {"color", required_argument, NULL, OPTION_COLOR},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int parse_view(struct browser_options *browser, const char *name)
{
    for (enum browser_list list = 0; list < LIST_KINDS; list++)
        if (strcmp(name, browser_list_name(list)) == 0) {
            browser->first = list;
            return 0;
        }
    return usage_error("top", "there is no view '%s'", name);
}

static int parse_color(struct browser_options *browser, const char *when)
{
    const char *no_color = getenv("NO_COLOR");
    if (strcmp(when, "auto") != 0 && strcmp(when, "always") != 0 && strcmp(when, "never") != 0)
        return usage_error("top", "--color: '%s' is not auto, always or never", when);
    browser->with_colors =
        strcmp(when, "always") == 0 || (strcmp(when, "auto") == 0 && !(no_color && *no_color));
    return 0;
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    struct view_options *view = &o->browser.view;
    switch (option) {
    case OPTION_VIEW:
        return parse_view(&o->browser, optarg);
    case OPTION_METRIC:
        view->metric = optarg;
        return 0;
    case OPTION_THREAD:
        view->thread = optarg;
        return 0;
    case OPTION_PROCESS:
        view->process = optarg;
        return 0;
    case OPTION_PHASE:
        view->phase = optarg;
        return 0;
    case OPTION_IDLE:
        view->fold_idle = false;
        return 0;
    case OPTION_NO_INLINE:
        view->labels.fold_inlined = true;
        return 0;
    case OPTION_NO_DEMANGLE:
        view->labels.keep_mangled = true;
        return 0;
    case OPTION_FULL_NAMES:
        o->browser.full_names = true;
        return 0;
    case OPTION_SOURCE_DIR:
        vec_push(&o->source_folders, optarg);
        return 0;
    case OPTION_COLOR:
        return parse_color(&o->browser, optarg);
    default:
        vec_push(&o->refinements,
                 (struct refinement){(enum refine_kind)(option - OPTION_REFINE), optarg});
        return 0;
    }
}

static int browse(const struct options *o, struct ct_error *err)
{
    struct profile profile;
    CT_TRY(profile_open(o->path, &profile, err));
    int status = profile_validate_tables(&profile, err);
    if (status == CT_OK)
        status = browser_run(&profile, &o->browser, err);
    profile_close(&profile);
    return status;
}

int cmd_top(int argc, char **argv)
{
    struct options o = {.path = "calltrail.ctp", .browser.view.fold_idle = true};
    optind = 1;
    opterr = 0;
    int option, status = parse_color(&o.browser, "auto");
    while (status == 0 && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            vec_free(&o.refinements);
            vec_free(&o.source_folders);
            return finish_output();
        }
        status = option == '?'   ? option_error("top", argv)
                 : option == ':' ? usage_error("top", "%s needs a value", argv[optind - 1])
                                 : take_option(&o, option);
    }
    if (status == 0 && optind < argc)
        o.path = argv[optind++];
    if (status == 0 && optind < argc)
        status = usage_error("top", "only one FILE is allowed: %s is too many", argv[optind]);
    o.browser.view.refinements = o.refinements.items;
    o.browser.view.refinement_count = o.refinements.count;
    o.browser.sources = (struct source_folders){o.source_folders.items, o.source_folders.count};
    struct ct_error err;
    if (status == 0)
        status = browse(&o, &err) == CT_OK ? 0 : report_error(&err);
    vec_free(&o.refinements);
    vec_free(&o.source_folders);
    return status;
}
