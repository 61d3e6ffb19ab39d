/* --from and --to: what was sampled in a part of the recording's time. */
#ifndef CLI_TIME_OPTIONS_H
#define CLI_TIME_OPTIONS_H

#include "profile/time_range.h"

#include <getopt.h>

enum { OPTION_FROM = 1000, OPTION_TO };

/* Rows for a table of getopt_long. */
#define TIME_OPTIONS                                                                               \
    {"from", required_argument, NULL, OPTION_FROM},                                                \
    {                                                                                              \
        "to", required_argument, NULL, OPTION_TO                                                   \
    }

/* Takes one of the two. Returns 0 or the exit status. */
int take_time_option(const char *command, int option, struct time_range *range);

/* Opens a profile whose tables are sound, restricted to the range; `metric` as there. */
int open_in_range(const char *path, const struct time_range *range, const char *metric,
                  struct profile *out, struct ct_error *err);

#endif
