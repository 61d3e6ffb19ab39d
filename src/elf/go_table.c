#include "elf/go_table.h"

#include "base/search.h"

#include <string.h>

enum {
    POINTER_BYTES = 8,
    HEADER_BYTES = 72,
    MAGIC_BYTES = 8, /* magic, two zeros, the least instruction, the size of a pointer */
};

/* Words of the header behind the magic, by layout. In the first layout all is counted from the
   start of the table. */
static const struct {
    uint32_t magic;
    uint8_t text_start, names, values, functions; /* 0: there is none */
    uint8_t start_bytes;                          /* of a function's start, here and there */
    uint8_t flags;                                /* offset in a function's record; 0: none */
} layouts[] = {
    [GO_1_2] = {.magic = 0xfffffffb, .start_bytes = 8},
    [GO_1_16] = {.magic = 0xfffffffa,
                 .names = 2,
                 .values = 5,
                 .functions = 6,
                 .start_bytes = 8,
                 .flags = 41},
    [GO_1_18] = {.magic = 0xfffffff0,
                 .text_start = 2,
                 .names = 3,
                 .values = 6,
                 .functions = 7,
                 .start_bytes = 4,
                 .flags = 37},
    [GO_1_20] = {.magic = 0xfffffff1,
                 .text_start = 2,
                 .names = 3,
                 .values = 6,
                 .functions = 7,
                 .start_bytes = 4,
                 .flags = 41},
};

enum { LAYOUT_COUNT = sizeof layouts / sizeof layouts[0] };

static uint64_t word_at(const uint8_t *at, unsigned bytes)
{
    uint64_t word = 0;
    memcpy(&word, at, bytes);
    return word;
}

static bool has_magic(const uint8_t *at, enum go_layout *layout)
{
    if (at[4] || at[5] || at[6] != 1 || at[7] != POINTER_BYTES)
        return false;
    for (unsigned i = 0; i < LAYOUT_COUNT; i++) {
        if (word_at(at, 4) == layouts[i].magic) {
            *layout = i;
            return true;
        }
    }
    return false;
}

/* Candidates for this table, and for what points at it: a real file has one, or a few. */
enum { MOST_CANDIDATES = 16 };

/* --- where functions are counted from ----------------------------------------------------------
 */

uint64_t go_function_start(const struct go_table *t, uint32_t i)
{
    unsigned bytes = layouts[t->layout].start_bytes;
    return t->text_start + word_at(t->functions.at + (uint64_t)i * 2 * bytes, bytes);
}

static bool is_plausible(const struct elf_file *file, const struct go_table *t)
{
    uint64_t first = go_function_start(t, 0), end = go_function_start(t, t->function_count);
    return first < end && elf_code_at(file, first) && elf_code_at(file, end - 1);
}

/* A word that may be left to the dynamic linker. */
static uint64_t pointer_at(const struct elf_file *file, uint64_t address)
{
    uint64_t word = 0;
    const uint8_t *bytes = elf_bytes_at(file, address, POINTER_BYTES);
    if (!elf_relocated_word(file, address, &word) && bytes)
        word = word_at(bytes, POINTER_BYTES);
    return word;
}

/*
 * Go's description of itself (moduledata) begins with the address of this table, and further on has
 * the lowest and the highest address of its functions.
 */
static bool take_module_data(const struct elf_file *file, struct go_table *t, uint64_t address)
{
    enum { LOWEST = 160, HIGHEST = 168 };
    t->text_start = 0;
    uint64_t first = go_function_start(t, 0), end = go_function_start(t, t->function_count);
    t->text_start = pointer_at(file, address + LOWEST) - first;
    return t->text_start + end == pointer_at(file, address + HIGHEST) && is_plausible(file, t);
}

static bool find_by_module_data(const struct elf_file *file, struct go_table *t)
{
    uint64_t address;
    if (elf_relocation_to(file, t->address, &address))
        return take_module_data(file, t, address);
    unsigned tries = 0;
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(file, i, &p); i++) {
        const uint8_t *bytes = p.p_type == PT_LOAD && (p.p_flags & PF_W)
                                   ? elf_bytes_at(file, p.p_vaddr, p.p_filesz)
                                   : NULL;
        for (uint64_t at = -p.p_vaddr & 7; bytes && at + POINTER_BYTES <= p.p_filesz; at += 8)
            if (word_at(bytes + at, 8) == t->address && tries++ < MOST_CANDIDATES &&
                take_module_data(file, t, p.p_vaddr + at))
                return true;
    }
    return false;
}

/*
 * The header has it, if it is not left to the dynamic linker. A program that Go's own linker has
 * made without C begins its .text with it; Go 1.26 no longer writes it into the header.
 */
static bool find_text_start(const struct elf_file *file, struct go_table *t, const uint8_t *header)
{
    unsigned word = layouts[t->layout].text_start;
    t->text_start = 0;
    if (!word)
        return is_plausible(file, t);
    unsigned at = MAGIC_BYTES + word * POINTER_BYTES;
    t->text_start = word_at(header + at, 8);
    if (t->text_start && is_plausible(file, t))
        return true;
    if (elf_relocated_word(file, t->address + at, &t->text_start) && is_plausible(file, t))
        return true;
    if (find_by_module_data(file, t))
        return true;
    GElf_Shdr text;
    t->text_start = elf_section(file, ".text", &text) ? text.sh_addr : 0;
    return t->text_start && file->header.e_type == ET_EXEC && is_plausible(file, t);
}

/* --- the table ---------------------------------------------------------------------------------
 */

/* The part of the table from the offset that the header has in `word`; in GO_1_2 all of it. */
static bool part_of(const uint8_t *table, uint64_t size, unsigned word, struct go_bytes *out)
{
    uint64_t offset = word ? word_at(table + MAGIC_BYTES + word * POINTER_BYTES, 8) : 0;
    *out = (struct go_bytes){.at = table + offset, .size = size - offset};
    return offset < size;
}

static bool is_sorted(const struct go_table *t)
{
    for (uint32_t i = 0; i < t->function_count; i++)
        if (go_function_start(t, i) > go_function_start(t, i + 1))
            return false;
    return true;
}

static bool read_table(const struct elf_file *file, uint64_t address, const uint8_t *bytes,
                       uint64_t size, struct go_table *out)
{
    struct go_table t = {.address = address};
    if (size < HEADER_BYTES || !has_magic(bytes, &t.layout))
        return false;
    const unsigned start_bytes = layouts[t.layout].start_bytes;
    uint64_t count = word_at(bytes + MAGIC_BYTES, 8);
    if (!part_of(bytes, size, layouts[t.layout].names, &t.names) ||
        !part_of(bytes, size, layouts[t.layout].values, &t.values) ||
        !part_of(bytes, size, layouts[t.layout].functions, &t.functions))
        return false;
    if (t.layout == GO_1_2) { /* the pairs come behind the count; offsets count from the table */
        t.functions.at += MAGIC_BYTES + POINTER_BYTES;
        t.functions.size -= MAGIC_BYTES + POINTER_BYTES;
    }
    if (t.functions.size < start_bytes || !count || count > INT32_MAX ||
        count > (t.functions.size - start_bytes) / 2 / start_bytes)
        return false;
    t.function_count = (uint32_t)count;
    if (!is_sorted(&t) || !find_text_start(file, &t, bytes))
        return false;
    *out = t;
    return true;
}

/* In a segment, by its first bytes: GNU ld puts it into .data.rel.ro with other things. */
static bool search_segments(const struct elf_file *file, struct go_table *out)
{
    unsigned tries = 0;
    GElf_Phdr p;
    for (unsigned i = 0; elf_program_header(file, i, &p); i++) {
        const uint8_t *bytes =
            p.p_type == PT_LOAD ? elf_bytes_at(file, p.p_vaddr, p.p_filesz) : NULL;
        enum go_layout layout;
        for (uint64_t at = -p.p_vaddr & 7; bytes && at + HEADER_BYTES <= p.p_filesz; at += 8)
            if (has_magic(bytes + at, &layout) && tries++ < MOST_CANDIDATES &&
                read_table(file, p.p_vaddr + at, bytes + at, p.p_filesz - at, out))
                return true;
    }
    return false;
}

bool go_table_find(const struct elf_file *file, struct go_table *out)
{
    static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};
    for (unsigned i = 0; i < 2; i++) {
        GElf_Shdr h;
        const uint8_t *bytes = elf_section(file, names[i], &h) && h.sh_type != SHT_NOBITS
                                   ? elf_bytes_at(file, h.sh_addr, h.sh_size)
                                   : NULL;
        if (bytes && read_table(file, h.sh_addr, bytes, h.sh_size, out))
            return true;
    }
    return go_is_go(file) && search_segments(file, out);
}

bool go_is_go(const struct elf_file *file)
{
    static const char *const names[] = {".go.buildinfo", ".gopclntab", ".data.rel.ro.gopclntab",
                                        ".note.go.buildid"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (elf_section(file, names[i], NULL))
            return true;
    enum { GO_BUILD_ID = 4 };
    return elf_has_note(file, "Go", GO_BUILD_ID);
}

bool go_function_at(const struct go_table *t, uint32_t i, struct go_function *out)
{
    const unsigned start_bytes = layouts[t->layout].start_bytes;
    const unsigned name_at = start_bytes, values_at = start_bytes + 12;
    const unsigned flags_at = layouts[t->layout].flags;
    const unsigned record_bytes = flags_at ? flags_at + 1 : values_at + 4;
    if (i >= t->function_count)
        return false;
    uint64_t record = word_at(t->functions.at + (2 * (uint64_t)i + 1) * start_bytes, start_bytes);
    if (t->layout == GO_1_2) { /* counted from the start of the table, unlike the pairs */
        if (record < MAGIC_BYTES + POINTER_BYTES)
            return false;
        record -= MAGIC_BYTES + POINTER_BYTES;
    }
    if (record > t->functions.size || record_bytes > t->functions.size - record)
        return false;
    const uint8_t *r = t->functions.at + record;
    uint64_t name = word_at(r + name_at, 4);
    if (name >= t->names.size || !memchr(t->names.at + name, '\0', t->names.size - name))
        return false;
    *out = (struct go_function){.start = go_function_start(t, i),
                                .end = go_function_start(t, i + 1),
                                .name = (const char *)t->names.at + name,
                                .stack_values = (uint32_t)word_at(r + values_at, 4),
                                .flags = flags_at ? r[flags_at] & 127 : GO_NO_FLAGS};
    return out->start < out->end;
}

uint32_t go_function_behind(const struct go_table *t, uint64_t address)
{
    uint32_t i;
    SEARCH(i, t->function_count, go_function_start(t, i + 1) <= address);
    return i;
}

struct go_values go_stack_values(const struct go_table *t, const struct go_function *f)
{
    struct go_values v = {
        .start = f->start, .end = f->start, .limit = f->end, .value = -1, .is_first = true};
    if (f->stack_values && f->stack_values < t->values.size)
        v.reader = reader_over(t->values.at + f->stack_values, t->values.size - f->stack_values);
    else
        v.reader.failed = true;
    return v;
}

/* Each pair is a difference of the value (the sign is in its lowest bit), and the length. */
bool go_next_value(struct go_values *v)
{
    uint64_t change = read_uleb(&v->reader);
    if (v->reader.failed || (!change && !v->is_first) || v->end >= v->limit)
        return false;
    uint64_t length = read_uleb(&v->reader);
    if (v->reader.failed || !length)
        return false;
    uint32_t half = (uint32_t)change >> 1;
    v->value = (int32_t)((uint32_t)v->value + (change & 1 ? ~half : half));
    v->is_first = false;
    v->start = v->end;
    v->end = length < v->limit - v->start ? v->start + length : v->limit;
    return true;
}

uint64_t go_code_end(const struct go_table *t, const struct go_function *f)
{
    struct go_values v = go_stack_values(t, f);
    while (go_next_value(&v))
        ;
    return v.end > f->start ? v.end : f->end;
}
