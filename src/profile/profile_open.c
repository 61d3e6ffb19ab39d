/*
 * Opening a profile: everything that can be checked without looking at what the sections hold. The
 * work is linear in the number of sections, which is limited, so the size of the file does not
 * matter.
 */
#include "profile/profile_check.h"
#include "profile/time_range.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

/* Arrays of plain numbers have exactly this size; records at least this. */
static const struct {
    const char *name;
    uint32_t element_size;
    bool exact;
} kinds[CTP_KIND_END] = {
    [CTP_STRINGS] = {"strings", 1, true},
    [CTP_MODULES] = {"modules", sizeof(struct ctp_module), false},
    [CTP_FUNCTIONS] = {"functions", sizeof(struct ctp_function), false},
    [CTP_LINES] = {"lines", sizeof(struct ctp_line), false},
    [CTP_FRAMES] = {"frames", sizeof(struct ctp_frame), false},
    [CTP_ARGUMENTS] = {"arguments", sizeof(uint32_t), true},
    [CTP_PROCESSES] = {"processes", sizeof(struct ctp_process), false},
    [CTP_THREADS] = {"threads", sizeof(struct ctp_thread), false},
    [CTP_EPOCHS] = {"epochs", sizeof(struct ctp_epoch), false},
    [CTP_METRICS] = {"metrics", sizeof(struct ctp_metric), false},
    [CTP_ROOTS] = {"roots", sizeof(struct ctp_root), false},
    [CTP_FACTS] = {"facts", sizeof(struct ctp_fact), false},
    [CTP_PARENTS] = {"node parents", sizeof(uint32_t), true},
    [CTP_NODE_FRAMES] = {"node frames", sizeof(uint32_t), true},
    [CTP_VALUES] = {"metric values", sizeof(uint64_t), true},
    [CTP_TIME_RUNS] = {"time runs", sizeof(struct ctp_time_run), false},
    [CTP_TIMES] = {"times", sizeof(struct ctp_time), true},
    [CTP_DICTIONARIES] = {"dictionaries", 1, true},
};

const char *profile_section_name(uint32_t kind)
{
    return kind < CTP_KIND_END && kinds[kind].name ? kinds[kind].name : "unknown";
}

uint32_t profile_element_size(uint32_t kind)
{
    return kind < CTP_KIND_END ? kinds[kind].element_size : 0;
}

static int check_version(const struct profile *p, struct ct_error *err)
{
    const struct ctp_header *h = p->header;
    if (h->major > CTP_MAJOR)
        return ct_fail(err,
                       "%s: written by a newer calltrail (format %u.%u, this one reads up to "
                       "%d.%d)",
                       p->name, h->major, h->minor, CTP_MAJOR, CTP_MINOR);
    if (h->major < CTP_MAJOR)
        return ct_fail(err,
                       "%s: written by an older calltrail (format %u.%u, this one reads %d.0 to "
                       "%d.%d)",
                       p->name, h->major, h->minor, CTP_MAJOR, CTP_MAJOR, CTP_MINOR);
    return CT_OK;
}

static int check_header(struct profile *p, struct ct_error *err)
{
    size_t seen = p->size < sizeof p->header->magic ? p->size : sizeof p->header->magic;
    if (p->size == 0 || memcmp(p->bytes, CTP_MAGIC, seen) != 0)
        return ct_fail(err, "%s: is not a calltrail profile%s", p->name,
                       p->size ? "" : " (it is empty)");
    if (p->size < sizeof *p->header)
        return ct_fail(err, "%s: is truncated: it ends within the header", p->name);
    p->header = (const struct ctp_header *)(const void *)p->bytes;
    const struct ctp_header *h = p->header;
    CT_TRY(check_version(p, err));
    /* Sizes first: of a truncated file, that is the better message. */
    if (h->file_size > p->size)
        return ct_fail(err, "%s: is truncated: %zu of %" PRIu64 " bytes are present", p->name,
                       p->size, h->file_size);
    if (h->file_size < p->size)
        return ct_fail(err, "%s: is damaged: %" PRIu64 " bytes follow its end", p->name,
                       (uint64_t)p->size - h->file_size);
    if (XXH3_64bits(h, offsetof(struct ctp_header, hash)) != h->hash)
        return ct_fail(err, "%s: is damaged: the hash of the header does not match", p->name);
    if (h->header_size != sizeof *h || h->toc_entry_size != sizeof(struct ctp_section))
        return ct_fail(err, "%s: is damaged: the header states wrong sizes", p->name);
    if (h->toc_count > CTP_SECTIONS_MAX)
        return ct_fail(err, "%s: is damaged: it claims %" PRIu32 " sections", p->name,
                       h->toc_count);
    size_t toc_bytes = (size_t)h->toc_count * sizeof(struct ctp_section);
    if (h->toc_offset % CTP_ALIGNMENT != 0 || h->toc_offset < sizeof *h ||
        h->toc_offset > p->size || p->size - h->toc_offset < toc_bytes)
        return ct_fail(err, "%s: is damaged: the table of contents is not in the file", p->name);
    p->sections = (const struct ctp_section *)(const void *)(p->bytes + h->toc_offset);

    if (XXH3_64bits(p->sections, toc_bytes) != h->toc_hash)
        return ct_fail(err, "%s: is damaged: the hash of the table of contents does not match",
                       p->name);
    return CT_OK;
}

/* One section's own entry: does it lie in the file, and can we step through it? */
static int check_section(const struct profile *p, uint32_t i, struct ct_error *err)
{
    const struct ctp_section *s = &p->sections[i];
    bool known = s->kind > 0 && s->kind < CTP_KIND_END;
    if (!known && !(s->flags & CTP_OPTIONAL))
        return ct_fail(err,
                       "%s: has a section of kind %" PRIu32 ", which this calltrail does not know "
                       "(the file has format %u.%u, this one reads up to %d.%d)",
                       p->name, s->kind, p->header->major, p->header->minor, CTP_MAJOR, CTP_MINOR);

    uint64_t bytes;
    if (s->element_size == 0 ||
        __builtin_mul_overflow((uint64_t)s->element_size, s->count, &bytes) ||
        s->offset > p->size || p->size - s->offset < bytes)
        return ct_fail(err, "%s: is damaged: section %" PRIu32 " (%s) is not in the file", p->name,
                       i, profile_section_name(s->kind));
    if (s->offset % CTP_ALIGNMENT != 0)
        return ct_fail(err, "%s: is damaged: section %" PRIu32 " (%s) is not aligned", p->name, i,
                       profile_section_name(s->kind));
    if (!known)
        return CT_OK;

    uint32_t size = kinds[s->kind].element_size;
    bool fits = kinds[s->kind].exact
                    ? s->element_size == size
                    : s->element_size >= size && s->element_size % CTP_ALIGNMENT == 0;
    if (!fits)
        return ct_fail(err,
                       "%s: is damaged: section %" PRIu32 " (%s) has elements of %" PRIu32
                       " bytes, not %" PRIu32,
                       p->name, i, profile_section_name(s->kind), s->element_size, size);
    /* Indices are 32 bits, and the highest one means none. */
    if (s->count >= CTP_NONE)
        return ct_fail(err, "%s: is damaged: section %" PRIu32 " (%s) has too many elements",
                       p->name, i, profile_section_name(s->kind));
    return CT_OK;
}

static int by_start(const void *a, const void *b)
{
    const struct profile_span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

struct profile_span *profile_sorted_spans(const struct profile *p, size_t *count)
{
    const struct ctp_header *h = p->header;
    struct profile_span *spans = must_calloc((size_t)h->toc_count + 2, sizeof *spans);
    size_t n = 0;
    spans[n++] = (struct profile_span){0, sizeof *h, 0};
    if (h->toc_count)
        spans[n++] = (struct profile_span){
            h->toc_offset, h->toc_offset + h->toc_count * sizeof(struct ctp_section), 0};
    for (uint32_t i = 0; i < h->toc_count; i++) {
        const struct ctp_section *s = &p->sections[i];
        if (s->count)
            spans[n++] =
                (struct profile_span){s->offset, s->offset + s->element_size * s->count, s->kind};
    }
    qsort(spans, n, sizeof *spans, by_start);
    *count = n;
    return spans;
}

static int check_overlap(const struct profile *p, struct ct_error *err)
{
    size_t count;
    struct profile_span *spans = profile_sorted_spans(p, &count);
    int status = CT_OK;
    for (size_t i = 1; i < count && status == CT_OK; i++)
        if (spans[i].start < spans[i - 1].end)
            status = ct_fail(err, "%s: is damaged: two sections overlap at byte %" PRIu64, p->name,
                             spans[i].start);
    free(spans);
    return status;
}

/* Takes the sections of records; those of values wait until the number of metrics is known. */
static int take_tables(struct profile *p, struct ct_error *err)
{
    for (uint32_t i = 0; i < p->header->toc_count; i++) {
        const struct ctp_section *s = &p->sections[i];
        CT_TRY(check_section(p, i, err));
        if (s->kind >= CTP_KIND_END || s->kind == 0 || s->kind == CTP_VALUES)
            continue;
        struct profile_table *t = &p->tables[s->kind];
        if (t->items)
            return ct_fail(err, "%s: is damaged: it has two sections of kind %s", p->name,
                           profile_section_name(s->kind));
        *t = (struct profile_table){p->bytes + s->offset, (uint32_t)s->count, s->element_size};
    }
    struct profile_table *strings = &p->tables[CTP_STRINGS];
    p->strings = (const char *)strings->items;
    p->strings_size = strings->count;
    if (p->strings_size && (p->strings[0] != '\0' || p->strings[p->strings_size - 1] != '\0'))
        return ct_fail(err, "%s: is damaged: the strings do not begin and end with a zero byte",
                       p->name);
    if (p->tables[CTP_PARENTS].count != p->tables[CTP_NODE_FRAMES].count)
        return ct_fail(
            err, "%s: is damaged: there are parents for %" PRIu32 " nodes, but frames for %" PRIu32,
            p->name, p->tables[CTP_PARENTS].count, p->tables[CTP_NODE_FRAMES].count);
    p->parents = (const uint32_t *)(const void *)p->tables[CTP_PARENTS].items;
    p->node_frames = (const uint32_t *)(const void *)p->tables[CTP_NODE_FRAMES].items;
    p->node_count = p->tables[CTP_PARENTS].count;
    p->metric_count = p->tables[CTP_METRICS].count;
    return CT_OK;
}

static int take_values(struct profile *p, struct ct_error *err)
{
    /* Each metric has a section: checked before allocating, so that the claim cannot be a lie. */
    if (p->metric_count > p->header->toc_count)
        return ct_fail(err, "%s: is damaged: there are metrics without values", p->name);
    p->values = must_calloc(p->metric_count, sizeof *p->values);
    for (uint32_t i = 0; i < p->header->toc_count; i++) {
        const struct ctp_section *s = &p->sections[i];
        if (s->kind != CTP_VALUES)
            continue;
        if (s->aux >= p->metric_count || p->values[s->aux])
            return ct_fail(err,
                           "%s: is damaged: section %" PRIu32 " has values of metric %" PRIu32
                           ", which %s",
                           p->name, i, s->aux,
                           s->aux >= p->metric_count ? "does not exist" : "has them already");
        if (s->count != p->node_count)
            return ct_fail(err,
                           "%s: is damaged: metric %" PRIu32 " has %" PRIu64 " values for %" PRIu32
                           " nodes",
                           p->name, s->aux, s->count, p->node_count);
        p->values[s->aux] = (const uint64_t *)(const void *)(p->bytes + s->offset);
    }
    for (uint32_t i = 0; i < p->metric_count; i++)
        if (!p->values[i])
            return ct_fail(err, "%s: is damaged: metric %" PRIu32 " has no values", p->name, i);
    return CT_OK;
}

static int check_frame_of_file(struct profile *p, struct ct_error *err)
{
    CT_TRY(check_header(p, err));
    CT_TRY(take_tables(p, err));
    CT_TRY(check_overlap(p, err));
    p->hashed = must_calloc((size_t)p->header->toc_count + 1, sizeof *p->hashed);
    return take_values(p, err);
}

int profile_from_bytes(const void *bytes, size_t size, const char *name, struct profile *out,
                       struct ct_error *err)
{
    *out = (struct profile){.bytes = bytes, .size = size, .name = must_strdup(name)};
    int status = (uintptr_t)bytes % CTP_ALIGNMENT == 0
                     ? check_frame_of_file(out, err)
                     : ct_fail(err, "%s: is not aligned in memory", name);
    if (status != CT_OK)
        profile_close(out);
    return status;
}

int profile_open(const char *path, struct profile *out, struct ct_error *err)
{
    struct mapped_file file;
    CT_TRY(file_map(path, &file, err));
    int status = profile_from_bytes(file.bytes, file.size, path, out, err);
    if (status == CT_OK)
        out->file = file;
    else
        file_unmap(&file);
    return status;
}

void profile_rest(const struct profile *profile)
{
    if (profile->file.bytes)
        madvise((void *)(uintptr_t)profile->file.bytes, profile->file.size, MADV_DONTNEED);
}

void profile_close(struct profile *profile)
{
    profile_unrestrict(profile);
    free(profile->values);
    free(profile->hashed);
    free(profile->name);
    file_unmap(&profile->file);
    *profile = (struct profile){0};
}
