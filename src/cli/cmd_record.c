/* calltrail record: runs a program and writes its profile. */
#include "base/file.h"
#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/slice_options.h"
#include "record/events.h"
#include "record/record.h"
#include "report/recorded.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: calltrail record [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "       calltrail record [OPTIONS] -p PID[,PID...]\n"
    "\n"
    "Runs the program, unchanged, and writes where its CPU time went; or does so for processes\n"
    "that run already, until they end, for --duration, or until Ctrl-C.\n"
    "\n"
    "  -F, --frequency HZ  samples for each second of user CPU time (999)\n"
    "  -o, --output FILE   the profile (calltrail.ctp); %r in it is the rank of an MPI job, %h "
    "the\n"
    "                      host (in a job: calltrail.%r.ctp)\n"
    "  -e, --event EVENT   what to measure; several with commas, or one after the other:\n"
    "                        cpu             user CPU time (the default)\n"
    "                        cpu:k, cpu:uk   CPU time in the kernel, or in both; from outside\n"
    "                        wall            all time: running, and waiting in calls\n"
    "                        malloc[/BYTES]  memory that is asked for\n"
    "                        heap[/BYTES]    memory in use at the peak, and never freed\n"
    "                        lock            waiting for locks, conditions and threads\n"
    "                        io              bytes read and written\n"
    "                        perf:NAME[/N]   an event of the kernel, by perf's name: page-faults,\n"
    "                                        context-switches, cycles, …; one sample for N of "
    "them\n"
    "                      one sample of memory for BYTES on average (512K; 1: everything is "
    "counted)\n"
    "  -p, --pid PID       record processes that run already; several with commas\n"
    "      --outside       nothing of calltrail gets into the program: samples are taken and\n"
    "                      walked from outside; static programs, other libcs, kernel time\n"
    "      --window KB     from outside: how much of each stack is copied, at most 63 (as needed)\n"
    "      --delay S       start sampling after S seconds\n"
    "      --duration S    sample for S seconds\n"
    "      --every TIME    write a profile of each such interval (60s, 5m) instead of one at the "
    "end\n"
    "      --keep DIR      the folder for these profiles\n"
    "      --keep-bytes N  the most bytes that they may have there (1G): the oldest are removed\n"
    "      --store URL     to a database (calltrail store) instead; in --keep they wait while it "
    "is\n"
    "                      unavailable, and are merged when they are too many: nothing is lost\n"
    "      --label K=V     with --every: a label of these profiles in a store; can be repeated\n"
    "      --no-follow     leave out the processes that it starts\n"
    "      --no-lines      do not read debug information; calltrail symbolize can do so later\n"
    "      --no-times      do not keep when each sample came (8 bytes for each in the profile)\n"
    "      --quiet         print no summary at the end, on a terminal either\n"
    "      --verify        walk every stack twice, in two ways, and compare\n";

static const char usage_end[] =
    "\n"
    "The exit status is the program's. SIGUSR2 to calltrail writes what was measured so far.\n";

enum { OPTION_EVERY = 1, OPTION_KEEP, OPTION_KEEP_BYTES, OPTION_STORE, OPTION_LABEL };

enum { MOST_HZ = 100000, MOST_WINDOW = 63 << 10 };

static bool read_seconds(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0 && *out < 1e9;
}

/* PID[,PID...] */
static int read_pids(const char *text, struct record_pids *pids, struct ct_error *err)
{
    for (const char *at = text;; at++) {
        char *end;
        unsigned long pid = strtoul(at, &end, 10);
        if (end == at || pid < 1 || pid > INT_MAX || (*end && *end != ','))
            return ct_fail(err, "'%s' is not a process number, or several with commas", text);
        vec_push(&pids->items, (pid_t)pid);
        if (!*end)
            return CT_OK;
        at = end;
    }
}

/* The engine that needs nothing of the stack. */
static const char *engine_by_height(void)
{
    uint32_t number = 0;
    while (!record_engine_at(number)->by_height)
        number++;
    return record_engine_at(number)->name;
}

/* What cannot be had from outside, and what can be had only from there. */
static int check_outside(const struct record_options *record, struct ct_error *err)
{
    char engine[64];
    snprintf(engine, sizeof engine, "--engine %s", record->engine->name);
    const char *how = record->pids.items.count    ? "-p"
                      : record->engine->by_height ? engine
                                                  : "--outside";
    bool edits = engine_edits(record->engine, record->engine_options);
    if (!record->outside && (record->events.cpu_modes & CPU_KERNEL))
        return ct_fail(err, "cpu:k and cpu:uk require --outside or -p: kernel time is only seen "
                            "from outside");
    if (!record->outside && record->has_window)
        return ct_fail(err, "--window requires --outside or -p");
    if (record->has_window && !record->window_bytes && !record->engine->by_height)
        return ct_fail(err, "a window is a number of KB from 1 to %d, or 0 with --engine %s",
                       MOST_WINDOW >> 10, engine_by_height());
    if (!record->outside)
        return CT_OK;
    if (edits && !record->engine->by_height) /* that one says so itself */
        return ct_fail(err,
                       "%s cannot be combined with --engine %s, which works inside the program",
                       how, record->engine->name);
    if (record->events.mask & ~(uint32_t)EVENT_CPU)
        return ct_fail(err,
                       "%s can be combined with -e cpu, cpu:k and cpu:uk only: wall, malloc, heap, "
                       "lock and io are measured inside the program",
                       how);
    if (record->perf.count)
        return ct_fail(err, "%s cannot be combined with perf events", how);
    return CT_OK;
}

/* --help; and, for the build of the manual page, what is said there of engines. */
static int print_help(const char *kind)
{
    if (!kind) {
        fputs(usage, stdout);
        engine_options_help();
        fputs(usage_end, stdout);
    } else if (strcmp(kind, "synopsis") == 0) {
        engine_options_synopsis();
    } else if (strcmp(kind, "man") == 0) {
        engine_options_man();
    } else {
        return usage_error("record", "unknown option '--help=%s'", kind);
    }
    return finish_output();
}

/* Takes an option that is no engine's. */
static int take_option(int option, struct record_options *record, struct slice_options *slices,
                       struct ct_error *err)
{
    char *end;
    switch (option) {
    case OPTION_EVERY:
        slices->every = optarg;
        break;
    case OPTION_KEEP:
        slices->keep = optarg;
        break;
    case OPTION_KEEP_BYTES:
        slices->keep_bytes = optarg;
        break;
    case OPTION_STORE:
        slices->store = optarg;
        break;
    case OPTION_LABEL:
        vec_push(&slices->labels.items, optarg);
        break;
    case 'F':
        record->rate_hz = strtoul(optarg, &end, 10);
        if (*end || !*optarg || record->rate_hz < 1 || record->rate_hz > MOST_HZ)
            return ct_fail(err, "a frequency is a number from 1 to %d, not '%s'", MOST_HZ, optarg);
        break;
    case 'o':
        record->output = optarg;
        break;
    case 'e':
        return events_parse(optarg, &record->events, &record->perf, err);
    case 'd':
    case 'D':
        if (!read_seconds(optarg, option == 'd' ? &record->delay_s : &record->duration_s))
            return ct_fail(err, "'%s' is not a number of seconds", optarg);
        break;
    case 'n':
        record->follow = false;
        break;
    case 'L':
        record->no_lines = true;
        break;
    case 't':
        record->no_times = true;
        break;
    case 'O':
        record->outside = true;
        break;
    case 'p':
        return read_pids(optarg, &record->pids, err);
    case 'w':
        record->window_bytes = strtoul(optarg, &end, 10) << 10;
        record->has_window = true;
        if (*end || !*optarg || record->window_bytes > MOST_WINDOW)
            return ct_fail(err, "a window is a number of KB from 1 to %d, not '%s'",
                           MOST_WINDOW >> 10, optarg);
        break;
    case 'v':
        record->verify = true;
        break;
    case 'E':
        return engine_find(optarg, &record->engine, err);
    }
    return CT_OK;
}

/* Where the profile goes. Ranks of a job do not write over each other, unless they are told to. */
static int name_output(struct record_options *record, char **name, struct ct_error *err)
{
    const struct job *job = &record->job;
    bool is_alone = !job->has_rank || job->ranks == 1;
    const char *pattern = record->output ? record->output
                          : is_alone     ? "calltrail.ctp"
                                         : "calltrail.%r.ctp";
    CT_TRY(job_file_name(job, pattern, name, err));
    record->output = *name;
    if (!is_alone && job->rank == 0 && record->slices.every_s <= 0 && !strstr(pattern, "%r"))
        fprintf(stderr,
                "calltrail: all ranks write %s, and the last one stays: -o FILE.%%r.ctp gives each "
                "a file of its own\n",
                *name);
    return CT_OK;
}

/* On a terminal: what was recorded, and what to type next. The program's own output is not touched,
 * and a profile that went into a pipe cannot be read again. */
static void say_what_was_recorded(const char *output)
{
    struct ct_error err;
    if (isatty(STDERR_FILENO) && !file_is_stream(output))
        report_recorded(output, stderr, &err);
}

/* Runs what the options say; they are complete, but for the engine's own. */
static int run(struct record_options *record, const struct given_options *given,
               struct slice_options *slices, bool quiet)
{
    struct ct_error err;
    void *engine_options = NULL;
    int exit_status = 0, status = engine_options_take(given, record->engine, &engine_options, &err);
    record->engine_options = engine_options;
    events_complete(&record->events);
    if (status == CT_OK && engine_is_outside(record->engine, engine_options))
        record->outside = record->has_window = true; /* of 0 bytes, if no other is asked for */
    if (status == CT_OK)
        status = check_outside(record, &err);
    if (status == CT_OK && record->engine->check)
        status = record->engine->check(engine_options, record, &err);
    char *output = NULL;
    if (status == CT_OK)
        status = slice_options_take(slices, record->output, record, &err);
    if (status == CT_OK)
        status = name_output(record, &output, &err);
    if (status != CT_OK)
        exit_status = usage_error("record", "%s", err.text);
    else if (record_run(record, &exit_status, &err) != CT_OK)
        exit_status = report_error(&err);
    else if (!quiet && record->slices.every_s <= 0)
        say_what_was_recorded(record->output);
    if (engine_options && record->engine->forget)
        record->engine->forget(engine_options);
    free(engine_options);
    free(output);
    return exit_status;
}

int cmd_record(int argc, char **argv)
{
    static const struct option own[] = {{"frequency", required_argument, NULL, 'F'},
                                        {"output", required_argument, NULL, 'o'},
                                        {"event", required_argument, NULL, 'e'},
                                        {"delay", required_argument, NULL, 'd'},
                                        {"duration", required_argument, NULL, 'D'},
                                        {"outside", no_argument, NULL, 'O'},
                                        {"pid", required_argument, NULL, 'p'},
                                        {"window", required_argument, NULL, 'w'},
                                        {"no-follow", no_argument, NULL, 'n'},
                                        {"no-lines", no_argument, NULL, 'L'},
                                        {"no-times", no_argument, NULL, 't'},
                                        {"verify", no_argument, NULL, 'v'},
                                        {"quiet", no_argument, NULL, 'q'},
                                        {"engine", required_argument, NULL, 'E'},
                                        {"every", required_argument, NULL, OPTION_EVERY},
                                        {"keep", required_argument, NULL, OPTION_KEEP},
                                        {"keep-bytes", required_argument, NULL, OPTION_KEEP_BYTES},
                                        {"store", required_argument, NULL, OPTION_STORE},
                                        {"label", required_argument, NULL, OPTION_LABEL},
                                        {"help", optional_argument, NULL, 'h'},
                                        {0}};
    struct record_options record = {
        .rate_hz = 999, .follow = true, .job = job_find(), .engine = record_engine_at(0)};
    struct option *options = engine_options_with(own);
    struct given_options given = {0};
    struct slice_options slices = {0};
    struct ct_error err;
    char letters[32];
    int status = -1, which = 0; /* -1: go on */
    bool quiet = false;
    opterr = 0;
    engine_options_letters("+:F:o:e:p:h", letters, sizeof letters);
    for (int option;
         status < 0 && (option = getopt_long(argc, argv, letters, options, &which)) != -1;) {
        if (option == 'h')
            status = print_help(optarg);
        else if (option == ':')
            status = usage_error("record", "'%s' needs a value", argv[optind - 1]);
        else if (option == '?')
            status = option_error("record", argv);
        else if (option == 'q')
            quiet = true;
        else if (option == ENGINE_OPTION)
            vec_push(&given.items, (struct given_option){options[which].name, optarg});
        else if (engine_option_name(option))
            vec_push(&given.items, (struct given_option){engine_option_name(option), optarg});
        else if (take_option(option, &record, &slices, &err) != CT_OK)
            status = usage_error("record", "%s", err.text);
    }
    record.command = argv + optind;
    record.outside |= record.pids.items.count != 0;
    if (status < 0 && record.pids.items.count && optind < argc)
        status = usage_error("record", "-p cannot be combined with a PROGRAM");
    else if (status < 0 && !record.pids.items.count && optind == argc)
        status = usage_error("record", "a PROGRAM is needed, or -p PID");
    else if (status < 0)
        status = run(&record, &given, &slices, quiet);
    slice_options_free(&slices);
    vec_free(&given.items);
    vec_free(&record.pids.items);
    free(options);
    return status;
}

int cmd_recover(int argc, char **argv)
{
    static const char about[] = "usage: calltrail recover FOLDER [-o FILE]\n"
                                "\n"
                                "Makes the profile of a recording whose calltrail was killed, or "
                                "could not write\nit. The folder is /dev/shm/calltrail-..., or "
                                "below TMPDIR or /tmp; calltrail\ndoctor names it. It goes, unless "
                                "recorded processes are still running.\n";
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {0}};
    const char *output = "calltrail.ctp";
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(about, stdout);
            return finish_output();
        }
        if (option != 'o')
            return option_error("recover", argv);
        output = optarg;
    }
    if (argc - optind != 1)
        return usage_error("recover", "a FOLDER is needed");
    struct ct_error err;
    return record_recover(argv[optind], output, &err) == CT_OK ? 0 : report_error(&err);
}
