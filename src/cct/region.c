#include "cct/region.h"

#include <errno.h>
#include <sys/mman.h>

static void *take(struct forest_memory *memory, size_t bytes)
{
    struct region *region = (struct region *)memory;
    bytes = (bytes + 7) & ~(size_t)7;
    if (region->size_bytes - region->used_bytes < bytes)
        return NULL;
    void *taken = (uint8_t *)memory->base + region->used_bytes;
    region->used_bytes += bytes;
    return taken;
}

int region_begin(struct region *region, uint64_t size_bytes, struct ct_error *err)
{
    /* Place 0 is no node. */
    *region = (struct region){.memory.take = take, .size_bytes = size_bytes, .used_bytes = 8};
    region->memory.base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region->memory.base == MAP_FAILED)
        return ct_fail_errno(err, errno, "there are no %llu MB of addresses for a tree",
                             (unsigned long long)(size_bytes >> 20));
    return CT_OK;
}

void region_end(struct region *region)
{
    munmap(region->memory.base, region->size_bytes);
}
