#include "edit/plan.h"

#include "edit/sites.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

static const uint64_t item_bytes[PLAN_SECTIONS] = {[PLAN_SITES] = sizeof(struct plan_site),
                                                   [PLAN_BY_RANK] = sizeof(uint32_t),
                                                   [PLAN_CODE] = 1,
                                                   [PLAN_UNDECODED] = sizeof(uint32_t),
                                                   [PLAN_ROUTINES] = sizeof(struct plan_routine),
                                                   [PLAN_COPIES] = 1,
                                                   [PLAN_COPY_FIXES] = sizeof(uint32_t),
                                                   [PLAN_COPY_PIECES] = sizeof(struct plan_piece),
                                                   [PLAN_COPY_HOOKS] = sizeof(struct plan_hook)};

enum { ALIGN = 8 };

static uint64_t aligned(uint64_t offset)
{
    return (offset + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
}

static bool put(const void *bytes, size_t count, XXH3_state_t *hash, FILE *out)
{
    if (hash && count)
        XXH3_64bits_update(hash, bytes, count);
    return !out || !count || fwrite(bytes, count, 1, out) == 1;
}

/* What is behind the header: into the hash, and to the file, if there is one. */
static bool put_sections(const struct plan_header *h, const void *const *items, XXH3_state_t *hash,
                         FILE *out)
{
    static const char padding[ALIGN];
    uint64_t at = sizeof *h;
    bool good = true;
    for (unsigned i = 0; i < PLAN_SECTIONS; i++) {
        const struct plan_section *s = &h->sections[i];
        good = good && put(padding, s->offset - at, hash, out) &&
               put(items[i], s->count * item_bytes[i], hash, out);
        at = s->offset + s->count * item_bytes[i];
    }
    return good && put(padding, h->file_bytes - at, hash, out);
}

static int write_plan(struct plan_content *content, FILE *out, struct ct_error *err)
{
    struct plan_header h = content->header;
    h.magic = PLAN_MAGIC;
    h.version = PLAN_VERSION;
    h.header_bytes = sizeof h;
    h.file_bytes = sizeof h;
    for (unsigned i = 0; i < PLAN_SECTIONS; i++) {
        h.sections[i].offset = h.file_bytes;
        h.file_bytes = aligned(h.file_bytes + h.sections[i].count * item_bytes[i]);
    }
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    put_sections(&h, content->items, hash, NULL);
    h.hash = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    bool good = put(&h, sizeof h, NULL, out) && put_sections(&h, content->items, NULL, out);
    good = good && fflush(out) == 0;
    return good ? CT_OK : ct_fail_errno(err, errno, "an edit plan cannot be written");
}

/* --- edit plans: of sites ----------------------------------------------------------------------
 */

static struct plan_content content_of(const struct sites *sites, const struct map *map)
{
    struct plan_content out = {
        .header = {.base = map->header->base,
                   .sections = {[PLAN_SITES].count = sites->items.count,
                                [PLAN_BY_RANK].count = sites->by_rank.count,
                                [PLAN_CODE].count = sites->code.count,
                                [PLAN_UNDECODED].count = sites->undecoded.count},
                   .function_count = sites->function_count,
                   .unknown_bytes = sites->unknown_bytes},
        .items = {[PLAN_SITES] = sites->items.items,
                  [PLAN_BY_RANK] = sites->by_rank.items,
                  [PLAN_CODE] = sites->code.items,
                  [PLAN_UNDECODED] = sites->undecoded.items}};
    for (size_t i = 0; i < sites->items.count; i++) {
        const struct plan_site *s = &sites->items.items[i];
        out.header.tiers[s->kind][s->tier]++;
        out.header.reasons[s->reason]++;
    }
    return out;
}

static void make_edit_plan(const struct elf_file *file, const struct map *map,
                           struct plan_content *out)
{
    struct sites *sites = must_calloc(1, sizeof *sites);
    sites_find(file, map, sites);
    *out = content_of(sites, map);
    out->owned = sites;
}

static void free_edit_plan(struct plan_content *content)
{
    sites_free(content->owned);
    free(content->owned);
}

const struct plan_kind edit_plans = {".plan", make_edit_plan, free_edit_plan};

/* --- plans in the cache ------------------------------------------------------------------------
 */

static bool has_sections(const struct plan_header *h, size_t size)
{
    for (unsigned i = 0; i < PLAN_SECTIONS; i++) {
        const struct plan_section *s = &h->sections[i];
        if (s->offset % ALIGN || s->offset < sizeof *h || s->offset > size ||
            s->count > (size - s->offset) / item_bytes[i] || s->count > UINT32_MAX)
            return false;
    }
    return h->sections[PLAN_BY_RANK].count == h->sections[PLAN_SITES].count;
}

static int take_bytes(struct plan *p, const void *bytes, size_t size, struct ct_error *err)
{
    const struct plan_header *h = bytes;
    if (size < sizeof *h || h->magic != PLAN_MAGIC || h->version != PLAN_VERSION ||
        h->header_bytes != sizeof *h || h->file_bytes != size || !has_sections(h, size) ||
        h->hash != XXH3_64bits(h + 1, size - sizeof *h))
        return ct_fail(err, "damaged, or of another version");
    const char *start = bytes;
    p->header = h;
    p->sites = (const void *)(start + h->sections[PLAN_SITES].offset);
    p->site_count = (uint32_t)h->sections[PLAN_SITES].count;
    p->code = (const void *)(start + h->sections[PLAN_CODE].offset);
    p->undecoded = (const void *)(start + h->sections[PLAN_UNDECODED].offset);
    p->undecoded_count = (uint32_t)h->sections[PLAN_UNDECODED].count;
    p->routines = (const void *)(start + h->sections[PLAN_ROUTINES].offset);
    p->routine_count = (uint32_t)h->sections[PLAN_ROUTINES].count;
    return CT_OK;
}

int plan_from_bytes(const void *bytes, size_t size, struct plan *out, struct ct_error *err)
{
    *out = (struct plan){0};
    return take_bytes(out, bytes, size, err);
}

static int open_entry(const char *path, struct plan *out)
{
    if (file_map(path, &out->file, NULL) != CT_OK)
        return CT_ERROR;
    int status = take_bytes(out, out->file.bytes, out->file.size, NULL);
    if (status != CT_OK)
        file_unmap(&out->file);
    else
        out->path = must_strdup(path);
    return status;
}

/* The same file, which may have been replaced. */
static int open_again(const struct plan *p)
{
    struct stat status;
    int fd = p->path ? open(p->path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_ino == p->file.status.st_ino &&
        status.st_dev == p->file.status.st_dev)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int plan_descriptor(const struct plan *p)
{
    ssize_t bytes = (ssize_t)p->header->file_bytes;
    int fd = open_again(p);
    if (fd >= 0)
        return fd;
    fd = memfd_create("plan", MFD_CLOEXEC);
    if (fd >= 0 && write(fd, p->header, (size_t)bytes) != bytes) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int build_in_memory(struct plan_content *content, struct plan *out, struct ct_error *err)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&bytes, &size);
    if (!stream)
        return ct_fail_errno(err, errno, "no memory for an edit plan");
    int status = write_plan(content, stream, err);
    if (fclose(stream) != 0 && status == CT_OK)
        status = ct_fail_errno(err, errno, "no memory for an edit plan");
    if (status == CT_OK)
        status = take_bytes(out, bytes, size, err);
    if (status == CT_OK)
        out->owned = bytes;
    else
        free(bytes);
    return status;
}

static int build(const struct plan_kind *kind, const char *elf_path, const struct map *map,
                 const char *entry, struct plan *out, struct ct_error *err)
{
    struct elf_file file;
    struct plan_content content;
    struct new_file made;
    CT_TRY(elf_open(elf_path, &file, err));
    kind->make(&file, map, &content);
    int status = CT_ERROR;
    if (entry && file_begin(entry, &made, NULL) == CT_OK) {
        status = write_plan(&content, made.stream, NULL);
        if (status != CT_OK)
            file_abandon(&made);
        else if ((status = file_commit(&made, NULL)) == CT_OK)
            status = open_entry(entry, out);
    }
    if (status != CT_OK)
        status = build_in_memory(&content, out, err);
    kind->free(&content);
    elf_close(&file);
    return status;
}

/* The plan's entry in the cache: the map's, with another ending. */
static char *entry_of(const struct plan_kind *kind, const char *map_entry)
{
    static const char ending[] = ".map";
    size_t length = map_entry ? strlen(map_entry) : 0;
    if (length <= strlen(ending))
        return NULL;
    return must_format("%.*s%s%s", (int)(length - strlen(ending)), map_entry, kind->ending, ending);
}

/* The plan that is in the cache, without a look at the map: both are checked by hashes, and those
 * of the largest modules take milliseconds. */
static int open_cached(const struct plan_kind *kind, const struct map_cache *cache,
                       const char *elf_path, struct plan *out)
{
    char *map_entry = map_cached_path(cache, elf_path), *entry = entry_of(kind, map_entry);
    int status = entry ? open_entry(entry, out) : CT_ERROR;
    free(map_entry);
    free(entry);
    return status;
}

int plan_of_kind(const struct plan_kind *kind, struct map_cache *cache, const char *elf_path,
                 struct plan *out, struct ct_error *err)
{
    struct map map;
    *out = (struct plan){0};
    if (open_cached(kind, cache, elf_path, out) == CT_OK)
        return CT_OK;
    CT_TRY(map_for_file(cache, elf_path, &map, NULL, err));
    char *entry = entry_of(kind, map.entry_path);
    int status = build(kind, elf_path, &map, entry, out, err);
    free(entry);
    map_close(&map);
    return status;
}

bool plan_of_kind_is_cached(const struct plan_kind *kind, struct map_cache *cache,
                            const char *elf_path)
{
    struct plan_header h = {0};
    char *map_entry = map_cached_path(cache, elf_path), *entry = entry_of(kind, map_entry);
    FILE *file = entry ? fopen(entry, "rbe") : NULL;
    bool is_there = file && fread(&h, sizeof h, 1, file) == 1 && h.magic == PLAN_MAGIC &&
                    h.version == PLAN_VERSION;
    if (file)
        fclose(file);
    free(entry);
    free(map_entry);
    return is_there;
}

int plan_for_file(struct map_cache *cache, const char *elf_path, struct plan *out,
                  struct ct_error *err)
{
    return plan_of_kind(&edit_plans, cache, elf_path, out, err);
}

bool plan_is_cached(struct map_cache *cache, const char *elf_path)
{
    return plan_of_kind_is_cached(&edit_plans, cache, elf_path);
}

int plan_of_sites(const struct sites *sites, const struct map *map, struct plan *out,
                  struct ct_error *err)
{
    struct plan_content content = content_of(sites, map);
    *out = (struct plan){0};
    return build_in_memory(&content, out, err);
}

void plan_close(struct plan *p)
{
    if (p->owned)
        free(p->owned);
    else
        file_unmap(&p->file);
    free(p->path);
    *p = (struct plan){0};
}

const char *plan_kind_name(unsigned kind)
{
    static const char *const names[SITE_KINDS] = {"direct calls", "indirect calls", "tail jumps",
                                                  "short tail jumps", "indirect tail jumps"};
    return kind < SITE_KINDS ? names[kind] : "unknown";
}

const char *plan_reason_name(unsigned reason)
{
    static const char *const names[SITE_REASONS] = {
        "",
        "something may jump between it and the instructions before it",
        "the instructions before it cannot be moved",
        "nothing is before it in its function",
        "where its function's return address lies is not known",
        "it leads to no code",
        "a jump that may stay in its function, and cannot be told from a call"};
    return reason < SITE_REASONS ? names[reason] : "unknown";
}

/* How many bytes move out of the way of a hop; the jump to them lies before the hop's. */
static unsigned room_bytes(const struct plan *p, const struct plan_site *s)
{
    uint64_t at = (uint64_t)s->code + s->code_bytes, end = p->header->sections[PLAN_CODE].count;
    if (!(s->flags & SITE_MAKES_ROOM) || at >= end)
        return 0;
    if (s->flags & SITE_MAY_STAY)
        at += 1 + UINT64_C(8) * p->code[at];
    return at < end ? p->code[at] : 0;
}

void plan_list(const struct plan *p, FILE *out)
{
    static const char *const tiers[SITE_TIERS] = {"in-place", "moved", "hop", "pun", "none"};
    static const char *const kinds[SITE_KINDS] = {"call", "call*", "tail", "tail-short", "tail*"};
    static const char *const bases[] = {"?", "rsp", "rbp"};
    for (uint32_t i = 0; i < p->site_count; i++) {
        const struct plan_site *s = &p->sites[i];
        fprintf(
            out,
            "%#lx %s %s target %#lx function %#lx got %#lx slot %s%+d moved %u length %u hop %d "
            "room %u\n",
            (unsigned long)(p->header->base + s->offset), kinds[s->kind % SITE_KINDS],
            tiers[s->tier % SITE_TIERS], (unsigned long)(p->header->base + s->target),
            (unsigned long)(p->header->base + s->function),
            (unsigned long)(s->got ? p->header->base + s->got : 0), bases[s->slot_base % 3],
            s->slot_bytes, s->moved_bytes, s->length, s->hop, room_bytes(p, s));
    }
}

static double percent(uint32_t part, uint32_t whole)
{
    return whole ? 100.0 * part / whole : 0;
}

/* What is not counted, one by one. */
static void print_uncounted(const struct plan *p, FILE *out)
{
    enum { MOST = 20 };
    const struct plan_header *h = p->header;
    uint32_t named = 0;
    for (uint32_t i = 0; i < p->site_count; i++) {
        const struct plan_site *s = &p->sites[i];
        if (s->tier == TIER_NONE && named++ < MOST)
            fprintf(out, "  not counted: the site at %#lx: %s\n",
                    (unsigned long)(h->base + s->offset), plan_reason_name(s->reason));
    }
    for (uint32_t i = 0; i < p->undecoded_count; i++)
        if (named++ < MOST)
            fprintf(out,
                    "  not counted: calls of the function at %#lx: not all of it are "
                    "instructions\n",
                    (unsigned long)(h->base + p->undecoded[i]));
    if (named > MOST)
        fprintf(out, "  not counted: %u more; --list has all sites\n", named - MOST);
}

void plan_print(const struct plan *p, const char *name, FILE *out)
{
    static const char *const tiers[SITE_TIERS] = {"in place", "moved", "by hop", "by pun",
                                                  "not at all"};
    const struct plan_header *h = p->header;
    fprintf(out, "%s: %u sites in %u functions", name, p->site_count, h->function_count);
    if (p->undecoded_count)
        fprintf(out, ", %u functions are not all instructions and stay as they are",
                p->undecoded_count);
    if (h->unknown_bytes)
        fprintf(out, "\n  no calls were looked for in %u bytes of code", h->unknown_bytes);
    fprintf(out, "\n  %-22s %9s", "", "sites");
    for (unsigned t = 0; t < SITE_TIERS; t++)
        fprintf(out, " %10s", tiers[t]);
    fputc('\n', out);
    for (unsigned k = 0; k < SITE_KINDS; k++) {
        uint32_t all = 0;
        for (unsigned t = 0; t < SITE_TIERS; t++)
            all += h->tiers[k][t];
        if (!all)
            continue;
        fprintf(out, "  %-22s %9u", plan_kind_name(k), all);
        for (unsigned t = 0; t < SITE_TIERS; t++)
            fprintf(out, " %9.2f%%", percent(h->tiers[k][t], all));
        fputc('\n', out);
    }
    for (unsigned r = 1; r < SITE_REASONS; r++)
        if (h->reasons[r])
            fprintf(out, "  %9u sites: %s\n", h->reasons[r], plan_reason_name(r));
    print_uncounted(p, out);
}
