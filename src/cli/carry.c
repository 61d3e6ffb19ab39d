#include "cli/carry.h"

#include "store/store_db.h"
#include "store/store_spool.h"

/* Until the process ends. */
static struct store_labels given;
static struct store_spool spool = {.labels = &given};

int carry_to_store(struct record_slices *slices, const char *url, const struct carry_labels *labels,
                   struct ct_error *err)
{
    CT_TRY(db_check_url(url, err));
    for (size_t i = 0; i < labels->items.count; i++)
        CT_TRY(store_label_parse(&given, labels->items.items[i], err));
    spool.url = url;
    slices->carry = store_spool_carry;
    slices->carry_context = &spool;
    return CT_OK;
}
