/* calltrail store, in a build without libpq. */
#include "cli/commands.h"

int cmd_store(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    struct ct_error err;
    ct_fail(&err, "this calltrail was built without PostgreSQL: install libpq-dev and build it "
                  "again, or ask the one who did for a build with it");
    return report_error(&err);
}
