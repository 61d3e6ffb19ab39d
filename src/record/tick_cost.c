#include "record/tick_cost.h"

#include "map/cache.h"
#include "record/probe.h"

#include "base/file.h"
#include "base/vec.h"

#include <inttypes.h>
#include <string.h>

enum { BOOT_ID_BYTES = 36 };

/*
 * The kernel's accounts have a part of the way from the tick to the signal as user time, since its
 * own clock does not tick in interrupts: by measurements between a fifth and two fifths.
 */
static uint32_t measure(void)
{
    probe_begin();
    uint64_t delay_ns = probe_tick_delay_ns();
    probe_end();
    return (uint32_t)(delay_ns < UINT32_MAX ? delay_ns * 3 / 4 : 0);
}

static bool read_boot_id(char id[BOOT_ID_BYTES + 1])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool is_read = f && fscanf(f, "%36s", id) == 1;
    if (f)
        fclose(f);
    return is_read;
}

/* What was measured since the machine was started. */
static bool read_known(const char *path, const char *boot_id, uint32_t *cost_ns)
{
    char id[BOOT_ID_BYTES + 1];
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    bool is_known = fscanf(f, "%36s %" SCNu32, id, cost_ns) == 2 && strcmp(id, boot_id) == 0;
    fclose(f);
    return is_known;
}

/* Failing is no harm: it is measured again. */
static void keep(const char *path, const char *boot_id, uint32_t cost_ns)
{
    struct new_file file;
    struct ct_error err;
    if (file_begin(path, &file, &err) != CT_OK)
        return;
    fprintf(file.stream, "%s %" PRIu32 "\n", boot_id, cost_ns);
    file_commit(&file, &err);
}

uint32_t tick_cost_ns(void)
{
    char boot_id[BOOT_ID_BYTES + 1];
    struct ct_error why;
    uint32_t cost_ns;
    char *folder = read_boot_id(boot_id) ? cache_folder("machine", &why) : NULL;
    if (!folder)
        return measure();
    char *path = must_format("%s/tick-cost", folder);
    if (!read_known(path, boot_id, &cost_ns)) {
        cost_ns = measure();
        if (cost_ns) /* events that are not permitted now may be, later */
            keep(path, boot_id, cost_ns);
    }
    free(path);
    free(folder);
    return cost_ns;
}
