/* calltrail doctor: can I record here, and this program? */
#include "cli/commands.h"
#include "record/doctor.h"

#include <getopt.h>
#include <stdio.h>

static const char usage[] =
    "usage: calltrail doctor [PROGRAM]\n"
    "\n"
    "Says what this machine and this user allow: where samples can come from and at which true\n"
    "rates, and the state of the cache; for a PROGRAM whether it can be recorded, or why not.\n";

int cmd_doctor(int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {0}};
    opterr = 0;
    int option = getopt_long(argc, argv, "+h", options, NULL);
    if (option == 'h') {
        fputs(usage, stdout);
        return finish_output();
    }
    if (option != -1)
        return option_error("doctor", argv);
    if (argc - optind > 1)
        return usage_error("doctor", "one PROGRAM at a time");
    int status = doctor_print(stdout, argv[optind]);
    int output = finish_output();
    return output ? output : status;
}
