#include "cli/time_options.h"

#include "cli/commands.h"

int take_time_option(const char *command, int option, struct time_range *r)
{
    uint64_t us;
    if (!time_range_parse(optarg, &us))
        return usage_error(command, "--%s: '%s' is not a number of seconds",
                           option == OPTION_FROM ? "from" : "to", optarg);
    if (option == OPTION_FROM) {
        r->has_from = true;
        r->from_us = us;
    } else {
        r->has_to = true;
        r->to_us = us;
    }
    return 0;
}

int open_in_range(const char *path, const struct time_range *range, const char *metric,
                  struct profile *out, struct ct_error *err)
{
    CT_TRY(profile_open(path, out, err));
    int status = profile_validate_tables(out, err);
    if (status == CT_OK)
        status = profile_restrict(out, range, metric, err);
    if (status != CT_OK)
        profile_close(out);
    return status;
}
