/*
 * A module is compared in two passes. The first goes over all FDEs with what readelf's tables say.
 * FDEs with expressions stay open, and those that differ do too: a table cannot tell an undefined
 * register from one without a rule. For these, readelf's programs are read, and the second pass
 * decides.
 */
#include "module_check.h"

#include "base/file.h"
#include "frame_rule.h"
#include "map/map.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_REPORTED = 5 };

struct range {
    uint64_t start, end;
};

/* An executable segment: its addresses in the file, and as many of its bytes as the file has. */
struct segment {
    uint64_t start, end;
    const uint8_t *bytes;
    uint64_t size;
};

/* An FDE about code of the module, in order of start. */
struct ordered_fde {
    uint64_t start, end;
    uint64_t reach; /* the largest end up to here */
    size_t index;   /* in frames.fdes */
};

struct module {
    const struct check_request *request;
    FILE *report;
    struct check_counts counts;
    struct mapped_file file;
    VEC(struct segment) code;
    uint64_t entry;
    void *bytes; /* the map */
    size_t size;
    struct map map;
    struct frames frames;
    VEC(struct ordered_fde) order;
    bool *settled; /* one for each FDE */
    bool *noticed; /* one for each row of the map */
};

/* ELF */

static const void *elf_part(const struct mapped_file *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset ? file->bytes + offset : NULL;
}

static const Elf64_Ehdr *elf_header(const struct mapped_file *file)
{
    const Elf64_Ehdr *h = elf_part(file, 0, sizeof *h);
    if (h == NULL || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64 ||
        (h->e_type != ET_EXEC && h->e_type != ET_DYN))
        return NULL;
    return h;
}

static bool has_eh_frame(const struct mapped_file *file, const Elf64_Ehdr *h)
{
    const Elf64_Shdr *sections = elf_part(file, h->e_shoff, h->e_shnum * sizeof *sections);
    if (sections == NULL || h->e_shstrndx >= h->e_shnum)
        return false;
    const Elf64_Shdr *names = &sections[h->e_shstrndx];
    for (unsigned i = 0; i < h->e_shnum; i++) {
        static const char wanted[] = ".eh_frame";
        const char *name = elf_part(file, names->sh_offset + sections[i].sh_name, sizeof wanted);
        if (name != NULL && memcmp(name, wanted, sizeof wanted) == 0)
            return sections[i].sh_type != SHT_NOBITS && sections[i].sh_size > 0;
    }
    return false;
}

bool check_applies(const char *path)
{
    /* Most files of a machine are no ELF files: mapping them all would take longer than this. */
    char magic[SELFMAG];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_elf =
        fd >= 0 && read(fd, magic, SELFMAG) == SELFMAG && memcmp(magic, ELFMAG, SELFMAG) == 0;
    if (fd >= 0)
        close(fd);
    struct mapped_file file;
    if (!is_elf || file_map(path, &file, NULL) != CT_OK)
        return false;
    const Elf64_Ehdr *h = elf_header(&file);
    bool applies = h != NULL && has_eh_frame(&file, h);
    file_unmap(&file);
    return applies;
}

static int find_code(struct module *m, struct ct_error *err)
{
    CT_TRY(file_map(m->request->path, &m->file, err));
    const Elf64_Ehdr *h = elf_header(&m->file);
    const Elf64_Phdr *segments =
        h ? elf_part(&m->file, h->e_phoff, h->e_phnum * sizeof *segments) : NULL;
    if (segments == NULL)
        return ct_fail(err, "it has no program headers");
    m->entry = h->e_entry;
    for (unsigned i = 0; i < h->e_phnum; i++) {
        const Elf64_Phdr *p = &segments[i];
        const uint8_t *bytes = elf_part(&m->file, p->p_offset, p->p_filesz);
        if (p->p_type == PT_LOAD && p->p_flags & PF_X && bytes != NULL)
            vec_push(&m->code,
                     (struct segment){p->p_vaddr, p->p_vaddr + p->p_memsz, bytes, p->p_filesz});
    }
    return CT_OK;
}

/* The length of the nop at `at`, 0 if there is none. Bytes of zero and int3 count as well. */
static size_t nop_length(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *p = at;
    if (*p == 0 || *p == 0xcc)
        return 1;
    while (p < end && (*p == 0x66 || *p == 0x2e))
        p++;
    if (p < end && *p == 0x90)
        return (size_t)(p + 1 - at);
    if (end - p < 3 || p[0] != 0x0f || p[1] != 0x1f)
        return 0;
    unsigned mode = p[2] >> 6, base = p[2] & 7;
    size_t length = (size_t)(p - at) + 3 + (base == 4);
    length += mode == 1 ? 1 : mode == 2 || base == 5 ? 4 : 0;
    return length <= (size_t)(end - at) ? length : 0;
}

static bool is_padding(const struct module *m, uint64_t start, uint64_t end)
{
    for (size_t i = 0; i < m->code.count; i++) {
        const struct segment *s = &m->code.items[i];
        if (start < s->start || end > s->start + s->size)
            continue;
        const uint8_t *at = s->bytes + (start - s->start), *last = s->bytes + (end - s->start);
        size_t length = 1;
        while (at < last && length > 0)
            at += length = nop_length(at, last);
        return at == last;
    }
    return false;
}

/* The map */

static int build_map(struct module *m, struct ct_error *err)
{
    int fd = memfd_create("map", MFD_CLOEXEC);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w+");
    if (stream == NULL)
        return ct_fail_errno(err, errno, "cannot make a file in memory");
    int status = map_build(m->request->path, stream, err);
    if (status == CT_OK && fflush(stream) != 0)
        status = ct_fail_errno(err, errno, "cannot write the map");
    struct stat state = {0};
    if (status == CT_OK && fstat(fd, &state) == 0) {
        m->size = (size_t)state.st_size;
        m->bytes = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (m->bytes == MAP_FAILED) {
            m->bytes = NULL;
            status = ct_fail_errno(err, errno, "cannot map the map");
        }
    }
    fclose(stream);
    CT_TRY(status);
    return map_from_bytes(m->bytes, m->size, true, &m->map, err);
}

/* Makes a rule wrong in one of the things that it says. The map is a private copy. */
static void break_row(const struct map_tables *t, uint32_t row, unsigned way)
{
    uint32_t *rule = (uint32_t *)&t->rows[row].rule;
    uint16_t *saves = (uint16_t *)&t->saves[row];
    if (RULE_KIND(*rule) == RULE_SPECIAL)
        *rule = RULE_RSP | (uint32_t)RULE_MAX_CFA_WORDS << 12;
    else if (way % 4 == 0)
        *rule ^= 1u << 12; /* the CFA's offset */
    else if (way % 4 == 1)
        *rule ^= 1u << 2; /* rbp's place */
    else if (way % 4 == 2)
        *rule ^= 1u << 7; /* rbx's place */
    else
        *saves ^= (uint16_t)(1u << (way & 12)); /* that of r12, r13, r14 or r15 */
}

static void break_map(struct module *m)
{
    const struct map_tables *t = &m->map.tables;
    unsigned way = 0;
    for (uint64_t row = 0; row < t->row_count; row += m->request->break_every) {
        if (t->rows[row].pc >= m->map.header->span)
            break; /* a row about nothing */
        break_row(t, (uint32_t)row, way++);
        m->counts.broken++;
    }
}

/* FDEs */

static bool is_code(const struct module *m, const struct frame_fde *fde)
{
    for (size_t i = 0; i < m->code.count; i++)
        if (fde->start >= m->code.items[i].start && fde->end <= m->code.items[i].end)
            return true;
    return false;
}

static int by_start(const void *left, const void *right)
{
    const struct ordered_fde *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static void order_fdes(struct module *m)
{
    for (size_t i = 0; i < m->frames.fdes.count; i++) {
        const struct frame_fde *fde = &m->frames.fdes.items[i];
        if (!is_code(m, fde) || fde->end < fde->start)
            m->counts.outside++;
        else if (fde->end > fde->start)
            vec_push(&m->order, (struct ordered_fde){fde->start, fde->end, 0, i});
    }
    if (m->order.count > 0)
        qsort(m->order.items, m->order.count, sizeof *m->order.items, by_start);
    uint64_t reach = 0;
    for (size_t i = 0; i < m->order.count; i++) {
        if (reach < m->order.items[i].end)
            reach = m->order.items[i].end;
        m->order.items[i].reach = reach;
    }
}

/* Calls back with each FDE that has a byte in [start, end), until one call returns true. */
typedef bool fde_fn(struct module *m, size_t index, void *context);

static bool any_fde_within(struct module *m, uint64_t start, uint64_t end, fde_fn *fn,
                           void *context)
{
    size_t low = 0, high = m->order.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->order.items[middle].start < end)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && m->order.items[low].reach > start)
        if (m->order.items[low].end > start && fn(m, m->order.items[low].index, context))
            return true;
    return false;
}

/* The bytes that a row of an FDE holds for: up to the next row, within the FDE. */
static struct range row_range(const struct module *m, const struct frame_fde *fde, uint32_t i)
{
    const struct frame_row *row = &m->frames.rows.items[fde->first_row + i];
    struct range range = {row->pc, fde->end};
    if (range.start < fde->start)
        range.start = fde->start;
    if (i + 1 < fde->row_count && row[1].pc < fde->end)
        range.end = row[1].pc;
    return range;
}

static struct expected_rule expected_in_row(const struct module *m, const struct frame_fde *fde,
                                            uint32_t i)
{
    const struct frames *f = &m->frames;
    const struct frame_detail *detail =
        fde->has_details ? &f->details.items[fde->first_detail + i] : NULL;
    return rule_expected(f, fde, &f->rows.items[fde->first_row + i], detail);
}

/* A difference, and whether another FDE about the same byte gives the map's rule. */

struct dispute {
    const struct frame_fde *fde;
    uint64_t pc;
    uint32_t map_row;
};

static bool agrees_with(struct module *m, size_t index, void *context)
{
    const struct dispute *dispute = context;
    const struct frame_fde *fde = &m->frames.fdes.items[index];
    if (fde == dispute->fde)
        return false;
    for (uint32_t i = 0; i < fde->row_count; i++) {
        struct range range = row_range(m, fde, i);
        if (dispute->pc < range.start || dispute->pc >= range.end)
            continue;
        unsigned where;
        struct expected_rule expected = expected_in_row(m, fde, i);
        return !expected.is_open &&
               rule_compare(&expected, &m->map.tables, dispute->map_row, &where) != RULE_DIFFERS;
    }
    return false;
}

static void report_difference(struct module *m, const struct dispute *dispute,
                              const struct expected_rule *expected, unsigned where)
{
    if (m->noticed != NULL && dispute->map_row < m->map.tables.row_count)
        m->noticed[dispute->map_row] = true;
    if (m->counts.differences++ >= MOST_REPORTED)
        return;
    char want[80] = "no rule", have[80], about[40] = "no FDE";
    struct map_special found = map_spell_rule(&m->map.tables, dispute->map_row);
    rule_print(&found, where, have, sizeof have);
    if (expected != NULL)
        rule_print(&expected->rule, where, want, sizeof want);
    if (dispute->fde != NULL)
        snprintf(about, sizeof about, "FDE at %#llx", (unsigned long long)dispute->fde->offset);
    fprintf(m->report, "%s: at %#llx (%s): %s: readelf says %s, the map says %s\n",
            m->request->label, (unsigned long long)dispute->pc, about, where_name(where), want,
            have);
}

/* One row of a table, against all rows of the map within its range. False when it stays open. */
static bool check_row(struct module *m, const struct frame_fde *fde, uint32_t i, bool is_last_pass,
                      struct check_counts *counts)
{
    const struct map_tables *t = &m->map.tables;
    const uint64_t base = m->map.header->base;
    struct range range = row_range(m, fde, i);
    if (range.start >= range.end)
        return true; /* replaced at once, or beyond the FDE's end */
    struct expected_rule expected = expected_in_row(m, fde, i);
    if (expected.is_open)
        return false;
    counts->rows++;
    bool is_unknown = false, is_overlap = false;
    int64_t row = map_find_row(t, range.start - base);
    for (uint64_t pc = range.start; pc < range.end; pc = base + t->rows[row].pc) {
        unsigned where;
        struct dispute dispute = {fde, pc, (uint32_t)row};
        enum verdict verdict = rule_compare(&expected, t, dispute.map_row, &where);
        is_unknown |= verdict == RULE_AGREES_UNKNOWN;
        if (verdict == RULE_DIFFERS) {
            if (!is_last_pass)
                return false;
            if (any_fde_within(m, pc, pc + 1, agrees_with, &dispute))
                is_overlap = true;
            else
                report_difference(m, &dispute, &expected, where);
        }
        if (row == NO_ROW || ++row >= t->row_count)
            break;
    }
    counts->unknown += is_unknown;
    counts->overlap += is_overlap;
    return true;
}

static void check_fde(struct module *m, size_t index, bool is_last_pass)
{
    struct frame_fde *fde = &m->frames.fdes.items[index];
    struct check_counts counts = {0};
    for (uint32_t i = 0; i < fde->row_count; i++) {
        if (!check_row(m, fde, i, is_last_pass, &counts)) {
            fde->wanted = true;
            return;
        }
    }
    m->settled[index] = true;
    m->counts.rows += counts.rows;
    m->counts.unknown += counts.unknown;
    m->counts.overlap += counts.overlap;
}

static bool want_fde(struct module *m, size_t index, void *context)
{
    (void)context;
    m->frames.fdes.items[index].wanted = true;
    return false;
}

static int check_fdes(struct module *m, struct ct_error *err)
{
    bool any_open = false;
    for (size_t i = 0; i < m->order.count; i++)
        check_fde(m, m->order.items[i].index, false);
    for (size_t i = 0; i < m->order.count; i++) {
        const struct ordered_fde *fde = &m->order.items[i];
        if (m->settled[fde->index])
            continue;
        any_open = true;
        any_fde_within(m, fde->start, fde->end, want_fde, NULL);
    }
    if (!any_open)
        return CT_OK;
    CT_TRY(frames_read_programs(m->request->path, &m->frames, err));
    for (size_t i = 0; i < m->order.count; i++) {
        size_t index = m->order.items[i].index;
        if (!m->settled[index])
            check_fde(m, index, true);
        if (!m->settled[index])
            return ct_fail(err, "readelf shows no program for the FDE at %#llx",
                           (unsigned long long)m->frames.fdes.items[index].offset);
    }
    return CT_OK;
}

/*
 * Code without an FDE. A map may guess there, and must say so. Padding is never executed, so the
 * row before it may go on; and where the program is entered there is nothing to return to.
 */
static bool is_right_in_gap(const struct module *m, uint32_t row, struct range gap)
{
    const struct map_tables *t = &m->map.tables;
    struct map_special found = map_spell_rule(t, row);
    uint64_t start = m->map.header->base + t->rows[row].pc;
    if (found.cfa_kind == CFA_NONE || found.cfa_kind == CFA_UNKNOWN ||
        found.flags & SPECIAL_GUESSED)
        return true;
    if (start < gap.start)
        return is_padding(m, gap.start, gap.end);
    return found.cfa_kind == CFA_END && start == m->entry;
}

static void check_gap(struct module *m, uint64_t start, uint64_t end)
{
    const struct map_tables *t = &m->map.tables;
    const uint64_t base = m->map.header->base;
    int64_t row = map_find_row(t, start - base);
    row = row == NO_ROW ? 0 : row;
    for (; row < t->row_count && base + t->rows[row].pc < end; row++) {
        struct range part = {base + t->rows[row].pc, end};
        if (part.start < start)
            part.start = start;
        if (row + 1 < t->row_count && base + t->rows[row + 1].pc < end)
            part.end = base + t->rows[row + 1].pc;
        struct dispute dispute = {NULL, part.start, (uint32_t)row};
        if (part.start < part.end && !is_right_in_gap(m, dispute.map_row, part))
            report_difference(m, &dispute, NULL, DIFFERS_CFA);
    }
}

static void check_gaps(struct module *m)
{
    const struct map_header *h = m->map.header;
    uint64_t covered = h->base;
    for (size_t i = 0; i < m->order.count; i++) {
        if (covered < m->order.items[i].start)
            check_gap(m, covered, m->order.items[i].start);
        covered = m->order.items[i].reach;
    }
    check_gap(m, covered, h->base + h->span);
}

static int compare(struct module *m, struct ct_error *err)
{
    CT_TRY(find_code(m, err));
    CT_TRY(build_map(m, err));
    if (m->request->break_every > 0) {
        m->noticed = must_calloc(m->map.tables.row_count + 1u, sizeof *m->noticed);
        break_map(m);
    }
    CT_TRY(frames_read(m->request->path, &m->frames, err));
    m->settled = must_calloc(m->frames.fdes.count + 1, sizeof *m->settled);
    order_fdes(m);
    CT_TRY(check_fdes(m, err));
    check_gaps(m);
    if (m->noticed != NULL)
        for (uint64_t row = 0; row < m->map.tables.row_count; row += m->request->break_every)
            m->counts.noticed += m->noticed[row];
    return CT_OK;
}

static void add_counts(struct check_counts *sum, const struct check_counts *counts)
{
    sum->files++;
    sum->rows += counts->rows;
    sum->unknown += counts->unknown;
    sum->outside += counts->outside;
    sum->overlap += counts->overlap;
    sum->differences += counts->differences;
    sum->broken += counts->broken;
    sum->noticed += counts->noticed;
}

int check_module(const struct check_request *request, FILE *report, struct check_counts *counts,
                 struct ct_error *err)
{
    struct module m = {.request = request, .report = report};
    int status = compare(&m, err);
    if (m.counts.differences > MOST_REPORTED)
        fprintf(report, "%s: %llu differences in all\n", request->label,
                (unsigned long long)m.counts.differences);
    if (status == CT_OK && *m.frames.warning)
        fprintf(report, "%s: %s\n", request->label, m.frames.warning);
    add_counts(counts, &m.counts);
    file_unmap(&m.file);
    if (m.bytes != NULL)
        munmap(m.bytes, m.size);
    frames_free(&m.frames);
    vec_free(&m.code);
    vec_free(&m.order);
    free(m.settled);
    free(m.noticed);
    return status;
}
