/*
 * Any bytes as an edit plan: refused, or safe to print. The hash is made right first, so that
 * damage behind it is reached.
 */
#include "../fenced.h"
#include "edit/plan.h"

#include <stdio.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_plan(const struct fenced *f)
{
    static FILE *nowhere;
    struct plan p;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    if (plan_from_bytes(f->bytes, f->size, &p, NULL) != CT_OK)
        return;
    plan_list(&p, nowhere);
    plan_print(&p, "any", nowhere);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fenced f = fence(data, size & ~(size_t)7);
    read_plan(&f);
    if (f.size >= sizeof(struct plan_header)) {
        struct plan_header *h = (void *)f.bytes;
        h->magic = PLAN_MAGIC;
        h->version = PLAN_VERSION;
        h->header_bytes = sizeof *h;
        h->file_bytes = f.size;
        h->hash = XXH3_64bits(h + 1, f.size - sizeof *h);
        read_plan(&f);
    }
    unfence(&f);
    return 0;
}
