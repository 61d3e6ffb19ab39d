/*
 * calltrail view: the page of a profile, served on this machine.
 */
#include "cli/commands.h"

#include "view/serve.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail view [OPTIONS] [FILE] [OTHER]\n"
    "\n"
    "Serves a page with the profile, on this machine only, and opens it in a browser where there\n"
    "is one: flame graphs, trees, functions, callers, contexts. The address has a random token,\n"
    "without which nothing is answered. Ctrl-C ends it. FILE is calltrail.ctp when it is not\n"
    "given. With OTHER the page compares FILE with it, the newer one.\n"
    "\n"
    "  --port N           default: a free one\n"
    "  --no-browser       only print the address\n"
    "  --nodes N          contexts that a page gets at once; default: 1000000. It asks for more\n"
    "                     when it zooms in\n"
    "  --source-dir DIR   where sources are, if not where they were compiled\n"
    "  --no-source        no lines of source and no instructions\n"
    "  --no-demangle      mangled names\n"
    "  --help             this text\n";

enum { NODES_MAX = 1000000, PORT_MAX = 65535, TIMES_MAX = 2000000 };

struct options {
    const char *paths[2];
    size_t path_count;
    uint16_t port;
    bool no_browser;
    struct page_options page;
    VEC(const char *) source_folders;
};

static bool parse_number(const char *text, uint32_t most, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || number > most)
        return false;
    *out = (uint32_t)number;
    return true;
}

/* One option. Returns 0 or the exit status. */
static int take_option(struct options *o, int option)
{
    uint32_t number;
    switch (option) {
    case 'p':
        if (!parse_number(optarg, PORT_MAX, &number))
            return usage_error("view", "--port: '%s' is not from 0 to %d", optarg, PORT_MAX);
        o->port = (uint16_t)number;
        return 0;
    case 'n':
        if (!parse_number(optarg, UINT32_MAX - 1, &o->page.cut.nodes_max))
            return usage_error("view", "--nodes: '%s' is not a number of contexts", optarg);
        return 0;
    case 'b':
        o->no_browser = true;
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

/* Where there is a desktop, it knows which browser. Whether it works is not waited for. */
static void open_browser(const char *address)
{
    extern char **environ;
    char program[] = "xdg-open";
    char *copy = must_strdup(address);
    char *arguments[] = {program, copy, NULL};
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    if (getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"))
        posix_spawnp(&child, program, NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    free(copy);
}

static int serve(const struct options *o, const struct profile *profiles, struct ct_error *err)
{
    struct page_server *server;
    sigset_t ends;
    int number;
    /* Blocked before the server's thread begins, so that they wait for sigwait. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    CT_TRY(page_server_open(profiles, o->path_count, &o->page, o->port, &server, err));
    printf("%s\nCtrl-C ends it.\n", page_server_address(server));
    fflush(stdout);
    if (!o->no_browser)
        open_browser(page_server_address(server));
    while (sigwait(&ends, &number) != 0)
        continue;
    page_server_close(server);
    return CT_OK;
}

static int view_profiles(const struct options *o, struct ct_error *err)
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
        status = serve(o, profiles, err);
    while (open)
        profile_close(&profiles[--open]);
    return status;
}

int cmd_view(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"port", required_argument, NULL, 'p'},  {"no-browser", no_argument, NULL, 'b'},
        {"nodes", required_argument, NULL, 'n'}, {"source-dir", required_argument, NULL, 'd'},
        {"no-source", no_argument, NULL, 'S'},   {"no-demangle", no_argument, NULL, 'D'},
        {"help", no_argument, NULL, 'h'},        {0},
    };
    struct options options = {
        .paths = {"calltrail.ctp"},
        .path_count = 1,
        .page = {.cut = {.nodes_max = NODES_MAX}, .times_max = TIMES_MAX, .with_sources = true}};
    optind = 1;
    opterr = 0;
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            vec_free(&options.source_folders);
            return finish_output();
        }
        status = option == '?'   ? option_error("view", argv)
                 : option == ':' ? usage_error("view", "%s needs a value", argv[optind - 1])
                                 : take_option(&options, option);
    }
    if (status == 0 && argc - optind > 2)
        status =
            usage_error("view", "at most two files are allowed: %s is too many", argv[optind + 2]);
    for (size_t i = 0; status == 0 && optind < argc; i++) {
        options.paths[i] = argv[optind++];
        options.path_count = i + 1;
    }
    options.page.sources =
        (struct source_folders){options.source_folders.items, options.source_folders.count};
    struct ct_error err;
    if (status == 0)
        status = view_profiles(&options, &err) == CT_OK ? finish_output() : report_error(&err);
    vec_free(&options.source_folders);
    return status;
}
