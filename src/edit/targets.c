#include "edit/targets.h"

#include "base/reader.h"
#include "base/vec.h"
#include "map/cfi.h"

#include <dwarf.h>
#include <string.h>

static void add_entry(struct targets *t, uint64_t offset)
{
    targets_add(t, offset);
    if (offset >= t->start && offset < t->end)
        t->entries[(offset - t->start) / 64] |= UINT64_C(1) << (offset - t->start) % 64;
}

static void add_label(struct targets *t, uint64_t offset)
{
    add_entry(t, offset);
    if (offset >= t->start && offset < t->end)
        t->labels[(offset - t->start) / 64] |= UINT64_C(1) << (offset - t->start) % 64;
}

bool targets_has_label(const struct targets *t, uint32_t start, uint32_t end)
{
    for (uint64_t at = (uint64_t)start + 1; at < end && at < t->end; at++)
        if (at >= t->start && (t->labels[(at - t->start) / 64] >> (at - t->start) % 64 & 1))
            return true;
    return false;
}

void targets_take(struct targets *t, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end; at++)
        if (at >= t->start && at < t->end)
            t->taken[(at - t->start) / 64] |= UINT64_C(1) << (at - t->start) % 64;
}

bool targets_are_free(const struct targets *t, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end; at++)
        if (at < t->start || at >= t->end ||
            (t->taken[(at - t->start) / 64] >> (at - t->start) % 64 & 1) ||
            (at > start && targets_has(t, at)))
            return false;
    return true;
}

/* Whatever looks like the address of code, in data: jump tables, computed gotos, callbacks. */
static void add_words(struct targets *t, const struct elf_file *file, Elf_Scn *section)
{
    const Elf_Data *data = elf_section_data(section);
    for (size_t i = 0; data && i + 8 <= data->d_size; i += 8) {
        uint64_t word;
        memcpy(&word, (const char *)data->d_buf + i, sizeof word);
        add_label(t, word - file->base);
    }
}

static void add_relocations(struct targets *t, const struct elf_file *file, Elf_Scn *section)
{
    Elf_Data *data = elf_section_data(section);
    size_t count = data ? data->d_size / sizeof(Elf64_Rela) : 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Rela r;
        if (gelf_getrela(data, (int)i, &r))
            add_label(t, (uint64_t)r.r_addend - file->base);
    }
}

static void add_sections(struct targets *t, const struct elf_file *file)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    while ((section = elf_nextscn(file->elf, section))) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC))
            continue;
        if (header.sh_type == SHT_RELA)
            add_relocations(t, file, section);
        else if (header.sh_type == SHT_PROGBITS && !(header.sh_flags & SHF_EXECINSTR))
            add_words(t, file, section);
    }
}

/* A number of the call-site table; compilers use these two encodings. */
static uint64_t read_number(struct reader *r, uint8_t encoding)
{
    if ((encoding & 0x0f) == DW_EH_PE_uleb128)
        return read_uleb(r);
    if ((encoding & 0x0f) != DW_EH_PE_udata4 && (encoding & 0x0f) != DW_EH_PE_sdata4)
        r->failed = true;
    return read_u32(r);
}

/* Landing pads of one function, counted from its start. */
static void add_landing_pads(struct targets *t, const struct elf_file *file, uint32_t function,
                             uint64_t lsda)
{
    enum { MOST_BYTES = 1 << 20 };
    uint64_t room = MOST_BYTES;
    const uint8_t *bytes = NULL;
    while (room >= 4 && !elf_bytes_at(file, lsda, room))
        room /= 2;
    for (uint64_t step = room / 2; step; step /= 2) /* up to the end of what there is */
        if (elf_bytes_at(file, lsda, room + step))
            room += step;
    if (!(bytes = elf_bytes_at(file, lsda, room)))
        return;
    struct reader r = reader_over(bytes, room);
    if (read_u8(&r) !=
        DW_EH_PE_omit) /* pads that are counted from elsewhere: no compiler does that */
        return;
    if (read_u8(&r) != DW_EH_PE_omit)
        read_uleb(&r); /* where the types are */
    uint8_t encoding = read_u8(&r);
    uint64_t table_bytes = read_uleb(&r);
    const uint8_t *end = r.at + (table_bytes <= reader_left(&r) ? table_bytes : 0);
    while (!r.failed && r.at < end) {
        read_number(&r, encoding);
        read_number(&r, encoding);
        uint64_t pad = read_number(&r, encoding);
        read_uleb(&r); /* the action */
        if (pad && !r.failed)
            add_entry(t, function + pad);
    }
}

static void add_exceptions(struct targets *t, const struct elf_file *file)
{
    struct cfi cfi;
    if (cfi_read(file, &cfi, NULL) == CT_OK) {
        for (size_t i = 0; i < cfi.fdes.count; i++) {
            uint64_t lsda = cfi_language_data(&cfi, &cfi.fdes.items[i]);
            if (lsda)
                add_landing_pads(t, file, cfi.fdes.items[i].start, lsda);
        }
    }
    cfi_free(&cfi);
}

void targets_begin(struct targets *t, const struct elf_file *file, const struct map *map)
{
    *t = (struct targets){.start = map->header->code_start, .end = map->header->code_end};
    t->bits = must_calloc((t->end - t->start) / 64 + 1, sizeof *t->bits);
    t->labels = must_calloc((t->end - t->start) / 64 + 1, sizeof *t->labels);
    t->taken = must_calloc((t->end - t->start) / 64 + 1, sizeof *t->taken);
    t->entries = must_calloc((t->end - t->start) / 64 + 1, sizeof *t->entries);
    for (uint32_t i = 0; i < map->function_count; i++) {
        const struct map_function *f = &map->functions[i];
        targets_add(t, f->start);
        if (f->flags & FUNCTION_HAS_CFI || !(f->flags & FUNCTION_LABEL)) /* else it may be data */
            add_entry(t, f->start);
    }
    add_sections(t, file);
    add_exceptions(t, file);
}

void targets_free(struct targets *t)
{
    free(t->bits);
    free(t->labels);
    free(t->taken);
    free(t->entries);
}

/* Reads an entry of such a table; false: it leads to no code. */
static bool read_entry(const struct targets *t, const struct elf_file *file, uint64_t table,
                       uint64_t entry, uint64_t *target)
{
    const uint8_t *at = elf_bytes_at(file, file->base + entry, 4);
    int32_t relative;
    if (!at)
        return false;
    memcpy(&relative, at, sizeof relative);
    *target = table + (uint64_t)(int64_t)relative;
    return *target >= t->start && *target < t->end;
}

void targets_add_table(struct targets *t, const struct elf_file *file, uint64_t start, uint64_t end,
                       const struct part *parts, unsigned part_count)
{
    uint64_t target = 0, at = start;
    bool is_own = false;
    for (; at + 4 <= end && read_entry(t, file, start, at, &target); at += 4)
        for (unsigned k = 0; k < part_count; k++)
            is_own |= target >= parts[k].start && target < parts[k].end;
    for (end = at, at = start; is_own && at < end; at += 4) {
        read_entry(t, file, start, at, &target);
        add_label(t, target);
    }
}
