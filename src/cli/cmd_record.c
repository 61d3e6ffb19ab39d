/* calltrail record: runs a program and writes its profile. */
#include "cli/commands.h"
#include "record/record.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: calltrail record [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs the program, unchanged, and writes where its CPU time went.\n"
    "\n"
    "  -F, --frequency HZ  samples for each second of user CPU time (999)\n"
    "  -o, --output FILE   the profile (calltrail.ctp)\n"
    "      --no-follow     leave out the processes that it starts\n"
    "      --verify        walk every stack twice, in two ways, and compare\n";

enum { MOST_HZ = 100000 };

int cmd_record(int argc, char **argv)
{
    static const struct option options[] = {{"frequency", required_argument, NULL, 'F'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"no-follow", no_argument, NULL, 'n'},
                                            {"verify", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct record_options record = {.output = "calltrail.ctp", .rate_hz = 999, .follow = true};
    char *end;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "+F:o:h", options, NULL)) != -1;) {
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
        case 'n':
            record.follow = false;
            break;
        case 'v':
            record.verify = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return finish_output();
        default:
            return usage_error("record", "unknown option '%s'", argv[optind - 1]);
        }
    }
    if (optind == argc)
        return usage_error("record", "a PROGRAM is needed");
    record.command = argv + optind;
    struct ct_error err;
    int exit_status = 0;
    if (record_run(&record, &exit_status, &err) != CT_OK)
        return report_error(&err);
    return exit_status;
}
