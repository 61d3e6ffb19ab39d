#include "cli/carry.h"

#include "store/store_db.h"
#include "store/store_spool.h"

int carry_to_store(struct record_slices *slices, const char *url, struct ct_error *err)
{
    static struct store_spool spool; /* until the process ends */
    CT_TRY(db_check_url(url, err));
    spool.url = url;
    slices->carry = store_spool_carry;
    slices->carry_context = &spool;
    return CT_OK;
}
