/*
 * calltrail store: profiles of many machines and days in a PostgreSQL database.
 */
#include "cli/commands.h"

#include "profile/merge_files.h"
#include "store/store.h"
#include "store/store_db.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail store init URL\n"
    "       calltrail store add URL [--label KEY=VALUE]... [--remove] FILE... | @LIST\n"
    "       calltrail store ls URL [WHICH] [--json]\n"
    "       calltrail store query URL [WHICH] [-o OUT | --top N | --view VIEW] [-- REPORT "
    "OPTIONS]\n"
    "       calltrail store diff URL OLDER NEWER [-- DIFF OPTIONS]\n"
    "       calltrail store drop URL --before TIME\n"
    "\n"
    "Keeps profiles in a PostgreSQL database: contexts once for all of them, costs by profile.\n"
    "URL is postgresql://USER@HOST/DATABASE, or words such as 'host=/run/postgresql dbname=perf'.\n"
    "Passwords belong in ~/.pgpass.\n"
    "\n"
    "  init   makes the tables\n"
    "  add    adds profiles, each whole or not at all; one that is there already stays as it is\n"
    "  ls     which profiles there are\n"
    "  query  their sum, as calltrail merge makes it, without the times of single samples: a\n"
    "         profile (-o), or a view of it\n"
    "  diff   what changed between two sets, as calltrail diff says it. A set is labels and a\n"
    "         time FROM..TO, with commas: release=7,2026-11-01..2026-11-08\n"
    "  drop   removes the profiles taken before a time\n"
    "\n"
    "which profiles (all, otherwise):\n"
    "  --label KEY=VALUE  those with this label; can be repeated. host and program are labels\n"
    "                     that profiles have anyway\n"
    "  --since TIME       taken then or later: '2026-11-18 10:00', yesterday, '2 hours ago'\n"
    "  --until TIME       taken before\n"
    "\n"
    "  --remove           add: removes each file when the store has it\n"
    "  --top N            query: the N hottest contexts (10)\n"
    "  --view VIEW        query: any view of calltrail report\n"
    "  -o, --output OUT   query: a profile, for all other commands\n"
    "  --json             ls: an object in each line\n"
    "  --help             this text\n";

struct options {
    const char *url;
    struct store_selection which;
    const char *out, *top, *view, *before;
    bool json, remove;
    char **arguments; /* behind the URL, without options */
    int argument_count;
    char **rest; /* behind -- */
    int rest_count;
};

static int take_option(struct options *o, int option)
{
    struct ct_error err;
    switch (option) {
    case 'l':
        if (store_label_parse(&o->which.labels, optarg, &err) != CT_OK)
            return usage_error("store", "%s", err.text);
        break;
    case 's':
        o->which.since = optarg;
        break;
    case 'u':
        o->which.until = optarg;
        break;
    case 'o':
        o->out = optarg;
        break;
    case 't':
        o->top = optarg;
        break;
    case 'v':
        o->view = optarg;
        break;
    case 'b':
        o->before = optarg;
        break;
    case 'j':
        o->json = true;
        break;
    case 'r':
        o->remove = true;
        break;
    }
    return 0;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static int init(struct options *o, struct ct_error *err)
{
    struct store store;
    CT_TRY(db_connect(o->url, &store, err));
    int status = store_init(&store, err);
    db_close(&store);
    return status;
}

static int add_files(struct store *store, const struct options *o, const struct file_list *files,
                     struct ct_error *err)
{
    for (size_t i = 0; i < files->paths.count; i++) {
        const char *path = files->paths.items[i];
        bool is_new;
        CT_TRY(store_add(store, path, &o->which.labels, &is_new, err));
        printf("%s: %s\n", path, is_new ? "added" : "was there already");
        if (o->remove && unlink(path) != 0)
            return ct_fail_errno(err, errno, "%s: is in the store, and cannot be removed", path);
    }
    return CT_OK;
}

static int add(struct options *o, struct ct_error *err)
{
    struct store store;
    struct file_list files = {0};
    int status = CT_OK;
    for (int i = 0; i < o->argument_count && status == CT_OK; i++)
        status = file_list_add(&files, o->arguments[i], err);
    if (status == CT_OK && (status = store_open(o->url, &store, err)) == CT_OK) {
        status = add_files(&store, o, &files, err);
        db_close(&store);
    }
    file_list_free(&files);
    return status;
}

static int list(struct options *o, struct ct_error *err)
{
    struct store store;
    CT_TRY(store_open(o->url, &store, err));
    int status = store_list(&store, &o->which, o->json, stdout, err);
    db_close(&store);
    return status;
}

static int drop(struct options *o, struct ct_error *err)
{
    struct store store;
    uint64_t profiles;
    CT_TRY(store_open(o->url, &store, err));
    int status = store_drop(&store, o->before, &profiles, err);
    if (status == CT_OK)
        printf("%llu profile%s removed\n", (unsigned long long)profiles, profiles == 1 ? "" : "s");
    db_close(&store);
    return status;
}

/* A folder for answers that only views see; leave_folder removes it. The views are made in it, so
 * that what they print of a file's name is what was asked for. */
static int enter_folder(char **folder, struct ct_error *err)
{
    const char *parent = getenv("TMPDIR");
    *folder = must_format("%s/calltrail-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(*folder))
        return ct_fail_errno(err, errno, "%s: cannot be made", *folder);
    return chdir(*folder) == 0 ? CT_OK : ct_fail_errno(err, errno, "%s", *folder);
}

static void leave_folder(char *folder, const char *const *answers)
{
    for (; folder && *answers; answers++) {
        char *path = must_format("%s/%s", folder, *answers);
        unlink(path);
        free(path);
    }
    if (folder)
        rmdir(folder);
    free(folder);
}

/* The words of another command on answers, with more options of the user's. It may change their
 * order, but not the words. */
struct command_line {
    VEC(char *) words;
};

static int make_line(const char *const *words, const struct options *o, struct command_line *out)
{
    *out = (struct command_line){0};
    for (; *words; words++)
        vec_push(&out->words, (char *)(uintptr_t)*words);
    for (int i = 0; i < o->rest_count; i++)
        vec_push(&out->words, o->rest[i]);
    vec_push(&out->words, NULL);
    return (int)out->words.count - 1;
}

static int query(struct options *o, int *exit_status, struct ct_error *err)
{
    static const char name[] = "store";
    struct store store;
    uint32_t profiles;
    char *folder = NULL;
    CT_TRY(store_open(o->url, &store, err));
    int status = o->out ? CT_OK : enter_folder(&folder, err);
    if (status == CT_OK)
        status = store_query(&store, &o->which, o->out ? o->out : name, &profiles, err);
    db_close(&store);
    if (status == CT_OK && !o->out) {
        const char *words[] = {"report", "--view",  o->view ? o->view : "contexts",
                               name,     "--limit", o->top ? o->top : "10",
                               NULL};
        if (o->view && !o->top)
            words[4] = NULL;
        struct command_line line;
        int count = make_line(words, o, &line);
        *exit_status = cmd_report(count, line.words.items);
        vec_free(&line.words);
    }
    leave_folder(folder, (const char *const[]){name, NULL});
    return status;
}

/* labels and a time, with commas. The text is changed. */
static int parse_set(char *text, struct store_selection *out, struct ct_error *err)
{
    char *rest;
    for (char *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        char *dots = strstr(part, "..");
        if (!dots || (strchr(part, '=') && strchr(part, '=') < dots)) {
            CT_TRY(store_label_parse(&out->labels, part, err));
            continue;
        }
        *dots = '\0';
        out->since = *part ? part : NULL;
        out->until = dots[2] ? dots + 2 : NULL;
    }
    return CT_OK;
}

static int query_set(struct store *store, const char *text, const char *name, struct ct_error *err)
{
    struct store_selection which = {0};
    uint32_t profiles;
    char *copy = must_strdup(text);
    int status = parse_set(copy, &which, err);
    if (status == CT_OK)
        status = store_query(store, &which, name, &profiles, err);
    if (status != CT_OK) {
        struct ct_error why = *err;
        ct_fail(err, "%.100s: %.380s", text, why.text);
    }
    vec_free(&which.labels.items);
    free(copy);
    return status;
}

static int diff(struct options *o, int *exit_status, struct ct_error *err)
{
    static const char *const names[] = {"older", "newer", NULL};
    struct store store;
    char *folder = NULL;
    CT_TRY(store_open(o->url, &store, err));
    int status = enter_folder(&folder, err);
    for (int i = 0; i < 2 && status == CT_OK; i++)
        status = query_set(&store, o->arguments[i], names[i], err);
    db_close(&store);
    const char *const words[] = {"diff", names[0], names[1], NULL};
    if (status == CT_OK) {
        struct command_line line;
        int count = make_line(words, o, &line);
        *exit_status = diff_named(count, line.words.items, (const char *const *)o->arguments);
        vec_free(&line.words);
    }
    leave_folder(folder, names);
    return status;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Takes off what is behind --, and the options; leaves words in `arguments`. -1: go on. */
static int read_options(int argc, char **argv, struct options *o)
{
    static const struct option long_options[] = {{"label", required_argument, NULL, 'l'},
                                                 {"since", required_argument, NULL, 's'},
                                                 {"until", required_argument, NULL, 'u'},
                                                 {"output", required_argument, NULL, 'o'},
                                                 {"top", required_argument, NULL, 't'},
                                                 {"view", required_argument, NULL, 'v'},
                                                 {"before", required_argument, NULL, 'b'},
                                                 {"json", no_argument, NULL, 'j'},
                                                 {"remove", no_argument, NULL, 'r'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {0}};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") != 0)
            continue;
        o->rest = argv + i + 1;
        o->rest_count = argc - i - 1;
        argc = i;
    }
    optind = 1;
    opterr = 0;
    int status = -1;
    for (int option;
         status < 0 && (option = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage, stdout);
            return finish_output();
        }
        if (option == ':')
            return usage_error("store", "%s needs a value", argv[optind - 1]);
        if (option == '?')
            return option_error("store", argv);
        int taken = take_option(o, option);
        status = taken ? taken : -1;
    }
    o->arguments = argv + optind;
    o->argument_count = argc - optind;
    return status;
}

struct store_command {
    const char *name;
    int arguments_min, arguments_max;
    int (*run)(struct options *, struct ct_error *);
    int (*view)(struct options *, int *, struct ct_error *); /* has an exit status of its own */
};

static int run(const struct store_command *command, struct options *o)
{
    struct ct_error err;
    int exit_status = 0;
    /* Big arrays go back to the system when they are freed; malloc would learn to keep them. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    int status = command->run ? command->run(o, &err) : command->view(o, &exit_status, &err);
    if (status != CT_OK) {
        fflush(stdout);
        return report_error(&err);
    }
    status = finish_output();
    return status ? status : exit_status;
}

int cmd_store(int argc, char **argv)
{
    static const struct store_command commands[] = {
        {"init", 0, 0, init, NULL},   {"add", 1, INT32_MAX, add, NULL}, {"ls", 0, 0, list, NULL},
        {"query", 0, 0, NULL, query}, {"diff", 2, 2, NULL, diff},       {"drop", 0, 0, drop, NULL},
    };
    struct options o = {0};
    const struct store_command *command = NULL;
    int status = read_options(argc, argv, &o);
    for (size_t i = 0; i < sizeof commands / sizeof *commands && o.argument_count; i++)
        if (status < 0 && strcmp(o.arguments[0], commands[i].name) == 0)
            command = &commands[i];
    if (status < 0 && !command)
        status = usage_error("store", "init, add, ls, query, diff or drop is required");
    else if (status < 0 && o.argument_count < 2)
        status = usage_error("store", "%s: the URL of a database is required", command->name);
    if (status < 0) {
        o.url = o.arguments[1];
        o.arguments += 2;
        o.argument_count -= 2;
        if (o.argument_count < command->arguments_min)
            status = usage_error("store", "%s: %s is required", command->name,
                                 command->run ? "a FILE or @LIST" : "OLDER and NEWER");
        else if (o.argument_count > command->arguments_max)
            status = usage_error("store", "%s: '%s' is too many", command->name,
                                 o.arguments[command->arguments_max]);
        else if (command->run == drop && !o.before)
            status = usage_error("store", "drop: --before TIME is required");
    }
    if (status < 0)
        status = run(command, &o);
    vec_free(&o.which.labels.items);
    return status;
}
