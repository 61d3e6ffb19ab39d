#include "cli/slice_options.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t KEEP_BYTES = UINT64_C(1) << 30;

/* Seconds; s, m and h may be behind the number. */
static bool read_time(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    *out *= *end == 'h' ? 3600 : *end == 'm' ? 60 : 1;
    end += *end == 'h' || *end == 'm' || *end == 's';
    return end != text && !*end && *out >= 0.1 && *out <= 86400;
}

/* Bytes; K, M and G may be behind the number. */
static bool read_size(const char *text, uint64_t *out)
{
    char *end;
    double size = strtod(text, &end);
    size *= *end == 'G' ? 1 << 30 : *end == 'M' ? 1 << 20 : *end == 'K' ? 1 << 10 : 1;
    end += *end == 'G' || *end == 'M' || *end == 'K';
    if (end == text || *end || !(size >= 1 << 16) || size > 1e18)
        return false;
    *out = (uint64_t)size;
    return true;
}

/* What counts only upwards can be cut into slices: samples of CPU time do. */
static int check_what_is_measured(const struct record_options *record, struct ct_error *err)
{
    if (engine_edits(record->engine, record->engine_options) || record->perf.count ||
        (record->events.mask & ~(uint32_t)EVENT_CPU))
        return ct_fail(err, "--every can be combined with -e cpu, cpu:k and cpu:uk only");
    if (record->duration_s > 0)
        return ct_fail(err, "--every cannot be combined with --duration");
    return CT_OK;
}

/* Where slices wait for a store, if the command line does not say. */
static char *default_folder(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && *state)
        return must_format("%s/calltrail/spool", state);
    return must_format("%s/.local/state/calltrail/spool", home && *home ? home : "/var/tmp");
}

static int check_labels(const struct slice_options *o, struct ct_error *err)
{
    for (size_t i = 0; i < o->labels.items.count; i++) {
        const char *label = o->labels.items.items[i];
        size_t length = strcspn(label, "=");
        if (length == 0 || !label[length] || length > 200)
            return ct_fail(err, "--label: '%s' is not KEY=VALUE", label);
        for (size_t k = 0; k < i; k++)
            if (strncmp(o->labels.items.items[k], label, length + 1) == 0)
                return ct_fail(err, "--label: '%.*s' is given twice", (int)length, label);
    }
    return CT_OK;
}

int slice_options_take(struct slice_options *o, bool output_given, struct record_options *record,
                       struct ct_error *err)
{
    struct record_slices *slices = &record->slices;
    if (!o->every && (o->keep || o->keep_bytes || o->store || o->labels.items.count))
        return ct_fail(err, "--keep, --keep-bytes, --store and --label require --every");
    if (!o->every)
        return CT_OK;
    if (!read_time(o->every, &slices->every_s))
        return ct_fail(err, "--every: '%s' is not a time from 0.1s to 24h", o->every);
    if (!o->keep && !o->store)
        return ct_fail(err, "--every needs a place for slices: --keep DIR or --store URL");
    if (output_given)
        return ct_fail(err, "--every cannot be combined with -o: slices are in a folder, --keep");
    CT_TRY(check_what_is_measured(record, err));
    slices->folder_bytes = KEEP_BYTES;
    if (o->keep_bytes && !read_size(o->keep_bytes, &slices->folder_bytes))
        return ct_fail(err, "--keep-bytes: '%s' is not a size of 64K or more", o->keep_bytes);
    if (!o->keep)
        o->folder = default_folder();
    slices->folder = o->keep ? o->keep : o->folder;
    CT_TRY(check_labels(o, err));
    vec_push(&o->labels.items, NULL);
    slices->labels = o->labels.items.items;
    return o->store ? carry_to_store(slices, o->store, err) : CT_OK;
}

void slice_options_free(struct slice_options *o)
{
    vec_free(&o->labels.items);
    free(o->folder);
}
