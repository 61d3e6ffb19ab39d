#include "region_maker.h"

#include "edit/plan_format.h"
#include "runtime/edit/jit_list.h"
#include "runtime/edit/stub_cfi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16, MOST_ROWS = 16, COMMON_AT = 16, STUBS_AT = 64 };

/* Without a stub, before and behind the others. */
enum { EXTRA = 3 };

static struct tables {
    struct plan_site sites[MOST + 2 * EXTRA];
    struct stub_layout layouts[MOST + 2 * EXTRA];
    struct stub_shape shapes[MOST];
    struct stub_row rows[MOST * MOST_ROWS];
} tables;

static uint64_t base; /* what sites count from: no multiple of anything */
static struct region region;
static struct region_tables published;

uint8_t *region_code, *region_code_end, *region_common;
void (*region_slow)(void);

/* push %rcx; call *region_slow(through the region's first word); lea 8(%rsp), %rsp; ret */
static const uint8_t common[] = {0x51, 0xff, 0x15, 0xe9, 0xff, 0xff, 0xff,
                                 0x48, 0x8d, 0x64, 0x24, 0x08, 0xc3};
/* After the push CFA = rsp + 16, after the lea rsp + 8. */
static const uint8_t common_cfi[] = {0x41, 0x0e, 16, 0x4b, 0x0e, 8};

static void fail(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

static void add_site(unsigned i, const uint8_t *site, uint32_t start, unsigned bytes)
{
    tables.sites[i].offset = (uint32_t)((uint64_t)site - base);
    tables.layouts[i] = (struct stub_layout){.start = start, .bytes = (uint16_t)bytes};
}

/* Regions have room for what the unwind tables take up. */
static void check_size(const struct region_tables *t)
{
    static uint8_t room[1 << 16] __attribute__((aligned(8)));
    struct stub_cfi cfi;
    stub_cfi_write(room, t, region.code, &cfi);
    if (cfi.end - room > STUB_CFI_BYTES + (long)region_cfi_bytes(t->others, t->other_count))
        fail("no room for the unwind tables");
}

void make_region(struct hand_stub *stubs, unsigned count, void (*finish)(void))
{
    struct region_code others[1] = {
        {.bytes = sizeof common, .cfi = common_cfi, .cfi_bytes = sizeof common_cfi}};
    uint64_t near = (uint64_t)stubs[0].site;
    base = near - (1u << 30) - 12345;
    if (!region_map(&region, near, near + (1 << 20), 1 << 16, 1 << 12, region_cfi_bytes(others, 1)))
        fail("no memory for a region");
    memcpy(region.code, &region_slow, sizeof region_slow);
    memcpy(region.code + COMMON_AT, common, sizeof common);
    region_common = region.code + COMMON_AT;
    others[0].start = region_common;
    uint32_t at = STUBS_AT;
    unsigned n = 0, row = 0;
    while (n < EXTRA)
        add_site(n++, stubs[0].site, at, 0);
    for (unsigned i = 0; i < count; i++) {
        const unsigned bytes = (unsigned)(stubs[i].code_end - stubs[i].code);
        memcpy(region.code + at, stubs[i].code, bytes);
        stubs[i].made = *stubs[i].slot = region.code + at;
        tables.shapes[i].first_row = row;
        add_site(n, stubs[i].site, at, bytes);
        tables.layouts[n++].shape = (uint16_t)i;
        const struct stub_row *from = stubs[i].rows;
        do
            tables.rows[row++] = *from;
        while (from++->at != UINT16_MAX);
        at += bytes;
    }
    for (unsigned i = 0; i < EXTRA; i++)
        add_site(n++, stubs[count - 1].site, at, 0);
    finish();
    region_code = region.code;
    region_code_end = region.code + at;
    struct region_tables t = {.base = base,
                              .sites = tables.sites,
                              .layouts = tables.layouts,
                              .site_count = n,
                              .shapes = tables.shapes,
                              .rows = tables.rows,
                              .others = others,
                              .other_count = 1};
    check_size(&t);
    region_publish(&region, &t);
    published = t;
    published.other_count = 0;
}

void drop_region(void)
{
    region_unmap(&region);
}

void *churn_regions(void *unused)
{
    enum { AT_A_TIME = 5, TIMES = 400 };
    struct region others[AT_A_TIME] = {{0}};
    (void)unused;
    for (unsigned i = 0; i < TIMES; i++) {
        struct region *r = &others[i * 7 % AT_A_TIME];
        struct region_view view;
        const uint64_t before = (uint64_t)r->start;
        if (before)
            region_unmap(r);
        if (region_find(before, &view))
            fail("a region is found when it is gone");
        if (!region_map(r, (uint64_t)others, (uint64_t)others + 1, 1 << 12 << i % 3, 1 << 12, 0))
            fail("no memory for a region");
        region_publish(r, &published);
        if (!region_find((uint64_t)r->data - 1, &view) || view.elf != r->start)
            fail("a region is not found");
    }
    for (unsigned i = 0; i < AT_A_TIME; i++)
        if (others[i].start)
            region_unmap(&others[i]);
    return NULL;
}

extern struct {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
} __jit_debug_descriptor __attribute__((visibility("hidden")));

unsigned count_for_debuggers(void)
{
    unsigned count = 0;
    const struct jit_code_entry *previous = NULL;
    for (const struct jit_code_entry *e = __jit_debug_descriptor.first; e; e = e->next) {
        if (e->previous != previous)
            fail("the list for debuggers is broken");
        previous = e;
        count++;
    }
    return count;
}
