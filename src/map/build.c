/*
 * Making a map from an ELF file: read the CFI and the symbols, compile the rows in order of pc,
 * fill the gaps by decoding, and write it all out.
 */
#include "arch/x86_64/code_bytes.h"
#include "base/search.h"
#include "elf/elf_file.h"
#include "elf/go_table.h"
#include "elf/program_kind.h"
#include "elf/symbols.h"
#include "map/cfi.h"
#include "map/code_pass.h"
#include "map/decode.h"
#include "map/entries.h"
#include "map/fragments.h"
#include "map/functions.h"
#include "map/go_rows.h"
#include "map/map.h"
#include "map/unwind.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

struct build {
    struct elf_file file;
    struct cfi cfi;
    struct elf_symbols symbols;
    struct functions functions;
    struct unwind_table table;
    struct corrections corrections;
    struct unmarkable unmarkable;
    struct entries entries;
    struct go_table go;
    struct go_rows go_rows;
    struct map_header header;
    VEC(uint32_t) index;
    uint32_t fde_end; /* rows of the current FDE do not hold past this */
};

static void take_row(void *context, uint32_t pc, const struct cfi_row *row, bool signal_frame)
{
    struct build *b = context;
    if (pc < b->fde_end)
        unwind_append(&b->table, pc, unwind_from_cfi(&b->table, row, signal_frame));
}

/*
 * The PLT of a linker that gives it no CFI: entry 0 pushes a word for the binder, the others jump
 * away, or push a number (at byte 6, five bytes long) and jump to entry 0.
 */
static bool describe_plt(struct build *b, uint32_t start, uint32_t end)
{
    const struct code_range *code = elf_code_at(&b->file, b->file.base + start);
    if (!elf_is_plt(code) || end - start < 8 || start % 8 != 0 ||
        b->file.base + start != code->start)
        return false;
    bool lazy = code_is_slot_push(code->bytes) && end - start >= 32;
    bool jumps = code_is_slot_jump(code->bytes) || code_is_endbr64(code->bytes);
    if (!lazy && !jumps)
        return false;
    struct map_special s = {
        .cfa_kind = CFA_REG, .reg = X86_RSP, .index_reg = X86_NONE, .flags = SPECIAL_GUESSED};
    for (unsigned i = 0; i < AT_COUNT; i++)
        s.place[i] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
    s.place[AT_RIP] = (struct map_place){.kind = PLACE_CFA, .reg = X86_NONE, .offset = -8};
    b->header.counts.bytes_decoded += end - start;
    s.offset = lazy ? 16 : 8;
    unwind_append(&b->table, start, unwind_special(&b->table, &s));
    if (!lazy) /* every stub is a jump and nothing else */
        return true;
    s.offset = 24;
    unwind_append(&b->table, start + 6, unwind_special(&b->table, &s));
    s.cfa_kind = CFA_PLT;
    s.reg = X86_NONE;
    s.offset = 11;
    unwind_append(&b->table, start + 16, unwind_special(&b->table, &s));
    return true;
}

static void decode_gap(struct build *b, uint32_t start, uint32_t end)
{
    size_t first = entries_from(&b->entries, start), past = entries_from(&b->entries, end);
    size_t rows = b->table.rows.count;
    const uint32_t *entries = past > first ? b->entries.offsets.items + first : NULL;
    b->header.counts.bytes_decoded +=
        decode_rows(&b->table, &b->file, start, end, entries, past - first);
    b->header.counts.rows_decoded += b->table.rows.count - rows;
}

/*
 * Code that neither FDEs nor Go describe, within one code range. At the program's own entry there
 * is nothing to return to, and ld.so's start code has no CFI that says so: the code from there to
 * the first jump away is the outermost frame.
 */
static void describe_unknown(struct build *b, uint32_t start, uint32_t end)
{
    uint32_t padding = decode_padding(&b->file, start, end);
    if (padding == end - start) /* never executed: whatever the row before says may go on */
        return;
    if (describe_plt(b, start, end))
        return;
    uint64_t entry = elf_program_entry(&b->file);
    if (entry < b->file.base + start || entry >= b->file.base + end) {
        decode_gap(b, start, end);
        return;
    }
    uint32_t from = (uint32_t)(entry - b->file.base);
    uint32_t to = decode_straight_line(&b->file, from, end);
    if (from > start)
        decode_gap(b, start, from);
    unwind_append(&b->table, from, unwind_fixed(SPECIAL_END));
    if (to < end)
        decode_gap(b, to, end);
}

/*
 * Code that no FDE covers, within one code range. In a Go program that is nearly all; C code that
 * is linked in has its FDEs or, if Go's own linker has put it between Go's functions, has none.
 */
static void describe_gap(struct build *b, uint32_t start, uint32_t end)
{
    const uint64_t base = b->file.base;
    uint32_t i = b->go.function_count ? go_function_behind(&b->go, base + start) : 0;
    for (; start < end && i < b->go.function_count; i++) {
        uint64_t first = go_function_start(&b->go, i), past = go_function_start(&b->go, i + 1);
        if (first >= base + end)
            break;
        if (first > base + start) {
            describe_unknown(b, start, (uint32_t)(first - base));
            start = (uint32_t)(first - base);
        }
        uint32_t to = past < base + end ? (uint32_t)(past - base) : end;
        struct go_function f;
        if (to > start && go_function_at(&b->go, i, &f) && go_rows_of(&b->go_rows, &f, start, to))
            b->header.counts.bytes_go += to - start;
        else if (to > start)
            describe_unknown(b, start, to);
        start = to;
    }
    if (start < end)
        describe_unknown(b, start, end);
}

/* Describes [from, to), which no FDE covers and which may span several code ranges and holes. */
static void describe_gaps(struct build *b, uint64_t from, uint64_t to)
{
    size_t i;
    SEARCH(i, b->file.code.count, b->file.code.items[i].end < from);
    for (; i < b->file.code.count && b->file.code.items[i].start <= to; i++) {
        const struct code_range *code = &b->file.code.items[i];
        uint64_t start = code->start > from ? code->start : from;
        uint64_t end = code->end < to ? code->end : to;
        if (start < end)
            describe_gap(b, (uint32_t)(start - b->file.base), (uint32_t)(end - b->file.base));
        if (code->end < to && code->end >= from)
            unwind_append(&b->table, (uint32_t)(code->end - b->file.base),
                          unwind_fixed(SPECIAL_NONE));
    }
}

static void compile_rows(struct build *b)
{
    const struct fde *fdes = b->cfi.fdes.items;
    size_t count = b->cfi.fdes.count;
    struct map_counts *counts = &b->header.counts;
    uint64_t done = b->file.base; /* described up to here */
    for (size_t i = 0; i < count; i++) {
        uint64_t start = b->file.base + fdes[i].start;
        if (i && fdes[i].start == fdes[i - 1].start)
            continue; /* two of one function, after identical code folding */
        if (start > done)
            describe_gaps(b, done, start);
        b->fde_end = fdes[i].end;
        for (size_t k = i + 1; k < count && fdes[k].start < b->fde_end; k++)
            if (fdes[k].start > fdes[i].start)
                b->fde_end = fdes[k].start;
        uint32_t stopped;
        if (!cfi_run(&b->cfi, &fdes[i], take_row, b, &stopped) && stopped < b->fde_end) {
            unwind_append(&b->table, stopped, unwind_fixed(SPECIAL_UNKNOWN));
            b->table.rows_unknown++;
        }
        counts->bytes_cfi += b->fde_end - fdes[i].start;
        done = b->file.base + b->fde_end;
    }
    describe_gaps(b, done, b->file.code.items[b->file.code.count - 1].end + 1);
    counts->fdes = count;
    counts->bad_fdes += b->cfi.bad_fdes;
    counts->rows_unknown = b->table.rows_unknown;
    counts->symbols = b->symbols.items.count;
    for (size_t i = 0; i < b->file.code.count; i++)
        counts->bytes_code += b->file.code.items[i].end - b->file.code.items[i].start;
}

static void make_index(struct build *b)
{
    uint32_t buckets = (b->header.code_end >> MAP_BUCKET_SHIFT) + 1;
    size_t row = 0;
    for (uint64_t bucket = 0; bucket <= buckets; bucket++) {
        while (row < b->table.rows.count && b->table.rows.items[row].pc < bucket
                                                                              << MAP_BUCKET_SHIFT)
            row++;
        vec_push(&b->index, (uint32_t)row);
    }
}

static void note_go_functions(struct build *b)
{
    for (size_t k = 0; b->go.function_count && k < b->functions.items.count; k++) {
        struct map_function *fn = &b->functions.items.items[k];
        uint64_t start = b->file.base + fn->start;
        struct go_function f;
        if (go_function_at(&b->go, go_function_behind(&b->go, start), &f) && f.start == start &&
            f.stack_values)
            fn->flags |= FUNCTION_IS_GO;
    }
}

/* Go looks at its return addresses whenever it likes to. Without its table, any code may be Go's.
 */
static void keep_go_unmarked(struct build *b)
{
    if (!(b->header.flags & MAP_IS_GO))
        return;
    uint64_t base = b->file.base;
    struct map_range all = {.start = b->header.code_start, .end = b->header.code_end, .value = 1};
    if (b->go.function_count) {
        all.start = (uint32_t)(go_function_start(&b->go, 0) - base);
        all.end = (uint32_t)(go_function_start(&b->go, b->go.function_count) - base);
    }
    struct unmarkable kept = {0};
    bool is_put = false;
    for (size_t i = 0; i < b->unmarkable.items.count; i++) {
        struct map_range r = b->unmarkable.items.items[i];
        if (!is_put && r.start >= all.start) {
            vec_push(&kept.items, all);
            is_put = true;
        }
        if (r.end <= all.start || r.start >= all.end)
            vec_push(&kept.items, r);
    }
    if (!is_put)
        vec_push(&kept.items, all);
    vec_free(&b->unmarkable.items);
    b->unmarkable = kept;
}

static void flag_in_index(struct build *b, uint32_t start, uint32_t end, uint32_t flag)
{
    for (uint64_t i = start >> MAP_BUCKET_SHIFT;
         i + 1 < b->index.count && i << MAP_BUCKET_SHIFT < end; i++)
        b->index.items[i] |= flag;
}

static void finish_index(struct build *b)
{
    for (size_t i = 0; i < b->corrections.items.count; i++)
        flag_in_index(b, b->corrections.items.items[i].start, b->corrections.items.items[i].end,
                      INDEX_CORRECTED);
    for (size_t i = 0; i < b->unmarkable.items.count; i++)
        flag_in_index(b, b->unmarkable.items.items[i].start, b->unmarkable.items.items[i].end,
                      INDEX_UNMARKABLE);
}

struct piece {
    const void *bytes;
    size_t count, size;
};

static int write_all(struct build *b, FILE *out, struct ct_error *err)
{
    const struct piece pieces[MAP_SECTION_COUNT] = {
        [MAP_INDEX] = {b->index.items, b->index.count, sizeof(uint32_t)},
        [MAP_ROWS] = {b->table.rows.items, b->table.rows.count, sizeof(struct map_row)},
        [MAP_SAVES] = {b->table.saves.items, b->table.saves.count, sizeof(uint16_t)},
        [MAP_SPECIALS] = {b->table.specials.items, b->table.specials.count,
                          sizeof(struct map_special)},
        [MAP_CORRECTIONS] = {b->corrections.items.items, b->corrections.items.count,
                             sizeof(struct map_range)},
        [MAP_UNMARKABLE] = {b->unmarkable.items.items, b->unmarkable.items.count,
                            sizeof(struct map_range)},
        [MAP_FUNCTIONS] = {b->functions.items.items, b->functions.items.count,
                           sizeof(struct map_function)},
        [MAP_ALIASES] = {b->functions.aliases.items, b->functions.aliases.count, sizeof(uint32_t)},
        [MAP_STRINGS] = {b->functions.strings.bytes.items, b->functions.strings.bytes.count, 1},
    };
    static const char zeros[8];
    struct map_header *h = &b->header;
    XXH3_state_t *hash = XXH3_createState();
    XXH3_64bits_reset(hash);
    uint64_t at = sizeof *h;
    for (unsigned i = 0; i < MAP_SECTION_COUNT; i++) {
        uint64_t bytes = pieces[i].count * pieces[i].size;
        h->sections[i] = (struct map_section){.offset = at, .count = pieces[i].count};
        if (bytes)
            XXH3_64bits_update(hash, pieces[i].bytes, bytes);
        XXH3_64bits_update(hash, zeros, -bytes & 7);
        at += bytes + (-bytes & 7);
    }
    h->file_size = at;
    h->body_hash = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    h->header_hash = XXH3_64bits(h, sizeof *h);

    bool good = fwrite(h, sizeof *h, 1, out) == 1;
    for (unsigned i = 0; i < MAP_SECTION_COUNT; i++) {
        uint64_t bytes = pieces[i].count * pieces[i].size;
        good = good && (!bytes || fwrite(pieces[i].bytes, bytes, 1, out) == 1);
        good = good && fwrite(zeros, 1, -bytes & 7, out) == (-bytes & 7);
    }
    if (!good || fflush(out) != 0)
        return ct_fail_errno(err, errno, "%s: its map cannot be written", b->file.path);
    return CT_OK;
}

static void fill_header(struct build *b)
{
    struct map_header *h = &b->header;
    const struct elf_file *f = &b->file;
    h->magic = MAP_MAGIC;
    h->version = MAP_VERSION;
    h->header_size = sizeof *h;
    h->base = f->base;
    h->span = f->span;
    memcpy(h->build_id, f->build_id, f->build_id_size);
    h->build_id_size = f->build_id_size;
    h->symbol_sources = b->symbols.sources;
    uint32_t traits = program_traits(f);
    h->flags = (b->go.function_count || go_is_go(f) ? MAP_IS_GO : 0u) |
               (traits & CODE_OF_OCAML ? MAP_IS_OCAML : 0u) |
               (traits & CODE_READS_ITSELF ? MAP_READS_ITSELF : 0u);
    h->code_start = (uint32_t)(f->code.items[0].start - f->base);
    h->code_end = (uint32_t)(f->code.items[f->code.count - 1].end - f->base);
}

int map_build_elf(struct elf_file *file, FILE *out, struct ct_error *err)
{
    struct build b = {.file = *file};
    int status = cfi_read(&b.file, &b.cfi, err);
    if (status == CT_OK) {
        unwind_init(&b.table);
        if (!go_table_find(&b.file, &b.go))
            b.go.function_count = 0;
        b.go_rows = go_rows_begin(&b.file, &b.go, &b.table);
        elf_read_symbols(&b.file, &b.symbols);
        functions_collect(&b.file, &b.symbols, &b.cfi, &b.functions);
        fill_header(&b);
        entries_find(&b.file, &b.cfi, &b.functions, &b.entries);
        compile_rows(&b);
        make_index(&b);
        struct map_tables tables = {.index = b.index.items,
                                    .rows = b.table.rows.items,
                                    .saves = b.table.saves.items,
                                    .specials = b.table.specials.items,
                                    .bucket_count = (uint32_t)b.index.count - 1,
                                    .row_count = (uint32_t)b.table.rows.count,
                                    .special_count = (uint32_t)b.table.specials.count};
        fragments_join(&b.file, &tables, &b.functions);
        code_pass(&b.file, &b.cfi, &b.functions, &tables, &b.table, &b.corrections, &b.unmarkable);
        note_go_functions(&b);
        keep_go_unmarked(&b);
        finish_index(&b);
        status = write_all(&b, out, err);
        functions_free(&b.functions);
        elf_free_symbols(&b.symbols);
        unwind_free(&b.table);
        vec_free(&b.index);
        vec_free(&b.corrections.items);
        vec_free(&b.unmarkable.items);
        entries_free(&b.entries);
    }
    cfi_free(&b.cfi);
    return status;
}

int map_build(const char *elf_path, FILE *out, struct ct_error *err)
{
    struct elf_file file;
    CT_TRY(elf_open(elf_path, &file, err));
    int status = map_build_elf(&file, out, err);
    elf_close(&file);
    return status;
}
