/* calltrail store and record --store, in a build without libpq. */
#include "cli/carry.h"
#include "cli/commands.h"

static int say_what_is_missing(struct ct_error *err)
{
    return ct_fail(err, "this calltrail was built without PostgreSQL's libpq: install libpq-dev, "
                        "and build it again");
}

int cmd_store(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct ct_error err;
    say_what_is_missing(&err);
    return report_error(&err);
}

int carry_to_store(struct record_slices *slices, const char *url, struct ct_error *err)
{
    (void)slices;
    (void)url;
    return say_what_is_missing(err);
}
