/* calltrail record: runs a program and writes its profile. */
#include "cli/commands.h"
#include "record/events.h"
#include "record/record.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: calltrail record [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs the program, unchanged, and writes where its CPU time went.\n"
    "\n"
    "  -F, --frequency HZ  samples for each second of user CPU time (999)\n"
    "  -o, --output FILE   the profile (calltrail.ctp)\n"
    "  -e, --event EVENT   what to measure; several with commas, or one after the other:\n"
    "                        cpu             user CPU time (the default)\n"
    "                        wall            all time: running, and waiting in calls\n"
    "                        malloc[/BYTES]  memory that is asked for\n"
    "                        heap[/BYTES]    memory in use at the peak, and never freed\n"
    "                        lock            waiting for locks, conditions and threads\n"
    "                        io              bytes read and written\n"
    "                        perf:NAME[/N]   an event of the kernel, by perf's name: page-faults,\n"
    "                                        context-switches, cycles, …; one sample for N of "
    "them\n"
    "                      one sample of memory for BYTES on average (512K; 1: all is exact)\n"
    "      --delay S       begin to sample after so many seconds\n"
    "      --duration S    sample for so many seconds\n"
    "      --engine exact  count every call in its context, in unchanged programs; add -e cpu for\n"
    "                      samples on the same tree. The others: sample (the default)\n"
    "      --modules GLOB  with exact: only calls from modules whose path or name matches\n"
    "      --fold-recursion  with exact: a recursive call goes back to the context of the first\n"
    "      --k K           with exact: keep the last K callers of each call, 1 to 100, not all:\n"
    "                      contexts are then bounded by the program's structure\n"
    "      --height        with exact: the stack's height in each context, and whether it varies\n"
    "      --burst[=ON/PERIOD]  with exact: count the calls of ON ms in each PERIOD ms of CPU "
    "time\n"
    "                      (0.2/2): an estimate, for less time\n"
    "      --trace FILE    with exact: write every call and return to FILE, too; see calltrail "
    "kctx\n"
    "      --max-nodes N   with exact: at most so many contexts; what is beyond is one context\n"
    "      --no-follow     leave out the processes that it starts\n"
    "      --no-lines      do not read debug information; calltrail symbolize can do so later\n"
    "      --no-trampoline leave the program's stack alone: deep stacks cost more, no returns\n"
    "      --verify        walk every stack twice, in two ways, and compare\n"
    "\n"
    "The exit status is the program's. SIGUSR2 to calltrail writes what there is so far.\n";

enum { MOST_HZ = 100000, MOST_CALLERS = 100 };

static bool read_seconds(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && *out >= 0 && *out < 1e9;
}

/* ON/PERIOD in milliseconds; the unit may be there. */
static bool read_burst(const char *text, struct record_options *out)
{
    char *end;
    double on_ms = strtod(text, &end);
    end += strncmp(end, "ms", 2) == 0 ? 2 : 0;
    if (end == text || *end != '/')
        return false;
    const char *second = end + 1;
    double period_ms = strtod(second, &end);
    bool is_number = end != second && *second >= '0' && *second <= '9';
    end += strncmp(end, "ms", 2) == 0 ? 2 : 0;
    if (!is_number || *end || !(on_ms >= 0.02) || !(period_ms <= 1000) || !(on_ms < period_ms))
        return false;
    out->burst_ns = (uint64_t)(on_ms * 1e6);
    out->burst_period_ns = (uint64_t)(period_ms * 1e6);
    return true;
}

int cmd_record(int argc, char **argv)
{
    static const struct option options[] = {{"frequency", required_argument, NULL, 'F'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"event", required_argument, NULL, 'e'},
                                            {"delay", required_argument, NULL, 'd'},
                                            {"duration", required_argument, NULL, 'D'},
                                            {"no-follow", no_argument, NULL, 'n'},
                                            {"no-lines", no_argument, NULL, 'L'},
                                            {"no-trampoline", no_argument, NULL, 't'},
                                            {"verify", no_argument, NULL, 'v'},
                                            {"engine", required_argument, NULL, 'E'},
                                            {"modules", required_argument, NULL, 'm'},
                                            {"fold-recursion", no_argument, NULL, 'f'},
                                            {"height", no_argument, NULL, 'H'},
                                            {"max-nodes", required_argument, NULL, 'N'},
                                            {"k", required_argument, NULL, 'k'},
                                            {"burst", optional_argument, NULL, 'b'},
                                            {"trace", required_argument, NULL, 'T'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct record_options record = {
        .output = "calltrail.ctp", .rate_hz = 999, .follow = true, .trampoline = true};
    char *end;
    struct ct_error err;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+:F:o:e:h", options, NULL)) != -1;) {
        switch (option) {
        case 'F':
            record.rate_hz = strtoul(optarg, &end, 10);
            if (*end || !*optarg || record.rate_hz < 1 || record.rate_hz > MOST_HZ)
                return usage_error("record", "a frequency is a number from 1 to %d, not '%s'",
                                   MOST_HZ, optarg);
            break;
        case 'o':
            record.output = optarg;
            break;
        case 'e':
            if (events_parse(optarg, &record.events, &record.perf, &err) != CT_OK)
                return usage_error("record", "%s", err.text);
            break;
        case 'd':
        case 'D':
            if (!read_seconds(optarg, option == 'd' ? &record.delay_s : &record.duration_s))
                return usage_error("record", "'%s' is not a number of seconds", optarg);
            break;
        case ':':
            return usage_error("record", "'%s' needs a value", argv[optind - 1]);
        case 'n':
            record.follow = false;
            break;
        case 'L':
            record.no_lines = true;
            break;
        case 't':
            record.trampoline = false;
            break;
        case 'v':
            record.verify = true;
            break;
        case 'E':
            if (strcmp(optarg, "exact") != 0 && strcmp(optarg, "sample") != 0)
                return usage_error("record", "there is no engine '%s'; there are: sample, exact",
                                   optarg);
            record.exact = strcmp(optarg, "exact") == 0;
            break;
        case 'm':
            record.modules = optarg;
            break;
        case 'f':
            record.fold_recursion = true;
            break;
        case 'H':
            record.height = true;
            break;
        case 'N':
            record.max_nodes = strtoul(optarg, &end, 10);
            if (*end || !*optarg || record.max_nodes < 1)
                return usage_error("record", "'%s' is not a number of contexts", optarg);
            break;
        case 'T':
            record.trace = optarg;
            break;
        case 'b':
            if (!read_burst(optarg ? optarg : "0.2/2", &record))
                return usage_error(
                    "record",
                    "--burst: '%s' is not ON/PERIOD in ms, like 0.2/2: ON from 0.02, "
                    "PERIOD up to 1000 and longer than ON",
                    optarg);
            break;
        case 'k':
            record.k = (uint32_t)strtoul(optarg, &end, 10);
            if (*end || *optarg < '0' || *optarg > '9' || strlen(optarg) > 3 || record.k < 1 ||
                record.k > MOST_CALLERS)
                return usage_error("record", "--k: '%s' is not from 1 to %d callers", optarg,
                                   MOST_CALLERS);
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        default:
            return option_error("record", argv);
        }
    }
    if (optind == argc)
        return usage_error("record", "a PROGRAM is needed");
    events_complete(&record.events);
    if (!record.exact && (record.modules || record.fold_recursion || record.height ||
                          record.max_nodes || record.k || record.burst_ns || record.trace))
        return usage_error("record", "--modules, --fold-recursion, --height, --max-nodes, --k, "
                                     "--burst and --trace go with --engine exact");
    if (record.k && (record.fold_recursion || record.height))
        return usage_error("record", "--k does not go with %s",
                           record.height ? "--height"
                                         : "--fold-recursion, and bounds recursion, too");
    if (record.burst_ns &&
        (record.events.mask || record.height || record.delay_s > 0 || record.duration_s > 0))
        return usage_error("record", "--burst does not go with --event, --height, --delay and "
                                     "--duration");
    if (record.trace && (record.k || record.burst_ns || record.fold_recursion ||
                         record.events.mask || record.delay_s > 0 || record.duration_s > 0))
        return usage_error("record",
                           "--trace goes with whole contexts and all calls: not with --k, "
                           "--burst, --fold-recursion, --event, --delay and --duration");
    if (record.exact && record.perf.count)
        return usage_error("record", "perf events do not go with --engine exact");
    record.command = argv + optind;
    int exit_status = 0;
    if (record_run(&record, &exit_status, &err) != CT_OK)
        return report_error(&err);
    return exit_status;
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
