#include "map/cfi.h"

#include "base/reader.h"
#include "base/search.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <string.h>

struct cie {
    uint64_t offset;
    const uint8_t *program;
    const uint8_t *program_end;
    uint64_t code_factor;
    int64_t data_factor;
    uint8_t pointer_encoding;
    uint8_t lsda_encoding; /* of the pointer to the language's own data; DW_EH_PE_omit: none */
    bool signal_frame;
    bool has_augmentation_data; /* the augmentation string begins with z */
};

/* GNU's own opcodes, which dwarf.h names only in part. */
enum {
    CFA_ADVANCE_LOC8 = 0x1d, /* DW_CFA_MIPS_advance_loc8 */
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET = 0x2f,
};

enum { MOST_REMEMBERED = 64 };

static uint64_t address_of(const struct cfi *cfi, const uint8_t *at)
{
    return cfi->section.address + (uint64_t)(at - (const uint8_t *)cfi->section.data.d_buf);
}

/* An encoded pointer; false for encodings that cannot appear in linked x86-64 files. */
static bool read_pointer(const struct cfi *cfi, struct reader *r, uint8_t encoding, uint64_t *value)
{
    uint64_t place = address_of(cfi, r->at);
    switch (encoding & 0x0f) {
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        *value = read_u64(r);
        break;
    case DW_EH_PE_uleb128:
        *value = read_uleb(r);
        break;
    case DW_EH_PE_sleb128:
        *value = (uint64_t)read_sleb(r);
        break;
    case DW_EH_PE_udata2:
        *value = read_u16(r);
        break;
    case DW_EH_PE_sdata2:
        *value = (uint64_t)(int64_t)(int16_t)read_u16(r);
        break;
    case DW_EH_PE_udata4:
        *value = read_u32(r);
        break;
    case DW_EH_PE_sdata4:
        *value = (uint64_t)(int64_t)(int32_t)read_u32(r);
        break;
    default:
        return false;
    }
    switch (encoding & 0x70) {
    case DW_EH_PE_absptr:
        break;
    case DW_EH_PE_pcrel:
        *value += place;
        break;
    default:
        return false;
    }
    return !r->failed && !(encoding & DW_EH_PE_indirect);
}

static bool read_augmentation(const struct cfi *cfi, const Dwarf_CIE *raw, struct cie *cie)
{
    const char *letters = raw->augmentation;
    if (*letters != 'z')
        return *letters == '\0';
    cie->has_augmentation_data = true;
    struct reader r = reader_over(raw->augmentation_data, raw->augmentation_data_size);
    for (letters++; *letters; letters++) {
        uint64_t ignored;
        uint8_t encoding;
        switch (*letters) {
        case 'R':
            cie->pointer_encoding = read_u8(&r);
            break;
        case 'L':
            cie->lsda_encoding = read_u8(&r);
            break;
        case 'P': /* the personality; only its size matters, so an indirect one is fine */
            encoding = read_u8(&r);
            if (encoding != DW_EH_PE_omit &&
                !read_pointer(cfi, &r, encoding & (uint8_t)~DW_EH_PE_indirect, &ignored))
                return false;
            break;
        case 'S':
            cie->signal_frame = true;
            break;
        case 'B':
            break;
        default:
            return false;
        }
    }
    return !r.failed;
}

static void add_cie(struct cfi *cfi, uint64_t offset, const Dwarf_CIE *raw)
{
    struct cie cie = {.offset = offset,
                      .program = raw->initial_instructions,
                      .program_end = raw->initial_instructions_end,
                      .code_factor = raw->code_alignment_factor,
                      .data_factor = raw->data_alignment_factor,
                      .pointer_encoding = DW_EH_PE_absptr,
                      .lsda_encoding = DW_EH_PE_omit};
    if (raw->return_address_register == X86_RIP && read_augmentation(cfi, raw, &cie))
        vec_push(&cfi->cies, cie);
}

static int next_entry(const struct cfi *cfi, uint64_t offset, Dwarf_Off *next,
                      Dwarf_CFI_Entry *entry)
{
    return dwarf_next_cfi((const unsigned char *)ELFMAG "\2\1\1", (Elf_Data *)&cfi->section.data,
                          true, offset, next, entry);
}

/* A CIE always comes before the FDEs that refer to it. */
static const struct cie *find_cie(const struct cfi *cfi, uint64_t offset)
{
    size_t i;
    SEARCH(i, cfi->cies.count, cfi->cies.items[i].offset < offset);
    return i < cfi->cies.count && cfi->cies.items[i].offset == offset ? &cfi->cies.items[i] : NULL;
}

/* Reads the range of an FDE; `r` is left at its instructions. */
static bool read_range(const struct cfi *cfi, const struct cie *cie, struct reader *r,
                       uint64_t *start, uint64_t *size)
{
    if (!read_pointer(cfi, r, cie->pointer_encoding, start) ||
        !read_pointer(cfi, r, cie->pointer_encoding & 0x0f, size))
        return false;
    if (cie->has_augmentation_data)
        reader_skip(r, read_uleb(r));
    return !r->failed;
}

uint64_t cfi_language_data(const struct cfi *cfi, const struct fde *fde)
{
    const struct cie *cie = &cfi->cies.items[fde->cie];
    Dwarf_CFI_Entry entry;
    Dwarf_Off next;
    uint64_t ignored, address = 0;
    if (cie->lsda_encoding == DW_EH_PE_omit || !cie->has_augmentation_data ||
        next_entry(cfi, fde->offset, &next, &entry) != 0 || dwarf_cfi_cie_p(&entry))
        return 0;
    struct reader r = reader_over(entry.fde.start, (size_t)(entry.fde.end - entry.fde.start));
    if (!read_pointer(cfi, &r, cie->pointer_encoding, &ignored) ||
        !read_pointer(cfi, &r, cie->pointer_encoding & 0x0f, &ignored) || !read_uleb(&r))
        return 0;
    const uint8_t *at = r.at;
    uint64_t raw = 0; /* zero means none, whatever it is counted from */
    if (!read_pointer(cfi, &r, cie->lsda_encoding & 0x0f, &raw) || !raw)
        return 0;
    r = reader_over(at, (size_t)(entry.fde.end - at));
    return read_pointer(cfi, &r, cie->lsda_encoding, &address) ? address : 0;
}

static void add_fde(struct cfi *cfi, uint64_t offset, const Dwarf_FDE *raw)
{
    const struct cie *cie = find_cie(cfi, raw->CIE_pointer);
    struct reader r = reader_over(raw->start, (size_t)(raw->end - raw->start));
    uint64_t start, size;
    if (!cie || !read_range(cfi, cie, &r, &start, &size)) {
        cfi->bad_fdes++;
        return;
    }
    const struct code_range *code = elf_code_at(cfi->file, start);
    if (size == 0)
        return;
    if (!code || size > code->end - start) {
        cfi->bad_fdes++;
        return;
    }
    vec_push(&cfi->fdes, (struct fde){.start = (uint32_t)(start - cfi->file->base),
                                      .end = (uint32_t)(start - cfi->file->base + size),
                                      .offset = offset,
                                      .cie = (uint32_t)(cie - cfi->cies.items)});
}

static int by_start(const void *a, const void *b)
{
    const struct fde *x = a, *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

int cfi_read(const struct elf_file *file, struct cfi *out, struct ct_error *err)
{
    *out = (struct cfi){.file = file};
    if (!elf_eh_frame(file, &out->section))
        return CT_OK;
    uint64_t size = out->section.data.d_size;
    bool by_segment = !elf_section(file, ".eh_frame", NULL);
    for (uint64_t offset = 0; offset + 4 <= size;) {
        uint32_t length;
        memcpy(&length, (const uint8_t *)out->section.data.d_buf + offset, sizeof length);
        if (length == 0) {
            /* A terminator. More may follow when objects were joined with ld -r. */
            offset += 4;
            if (by_segment)
                break;
            continue;
        }
        Dwarf_CFI_Entry entry;
        Dwarf_Off next = 0;
        int status = next_entry(out, offset, &next, &entry);
        if (status != 0 && (status > 0 || next <= offset || next > size))
            return ct_fail(err, "%s: .eh_frame is damaged at offset 0x%lx", file->path,
                           (unsigned long)offset);
        if (status != 0)
            out->bad_fdes++;
        else if (dwarf_cfi_cie_p(&entry))
            add_cie(out, offset, &entry.cie);
        else
            add_fde(out, offset, &entry.fde);
        if (next <= offset)
            break;
        offset = next;
    }
    if (out->fdes.count)
        qsort(out->fdes.items, out->fdes.count, sizeof *out->fdes.items, by_start);
    return CT_OK;
}

void cfi_free(struct cfi *cfi)
{
    vec_free(&cfi->fdes);
    vec_free(&cfi->cies);
}

/* A run of an unwind program. */
struct machine {
    const struct cfi *cfi;
    const struct cie *cie;
    uint64_t pc;
    uint64_t end;
    struct cfi_row row;
    struct cfi_row initial;
    struct cfi_row *remembered;
    unsigned remembered_count;
    cfi_row_fn *emit;
    void *context;
};

static void set_rule(struct machine *m, uint64_t reg, struct cfi_rule rule)
{
    if (reg < X86_COUNT) /* vector registers and the like play no part in walking */
        m->row.reg[reg] = rule;
}

static void set_offset(struct machine *m, uint64_t reg, uint8_t kind, int64_t factored)
{
    int64_t offset;
    if (__builtin_mul_overflow(factored, m->cie->data_factor, &offset))
        offset = INT64_MAX; /* does not fit any rule: becomes an unknown row */
    set_rule(m, reg, (struct cfi_rule){.kind = kind, .offset = offset});
}

static void set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
    m->row.cfa_is_expression = false;
    m->row.cfa_reg = reg < X86_COUNT ? (uint8_t)reg : X86_NONE;
    m->row.cfa_offset = offset;
}

static int64_t factored(const struct machine *m, int64_t value)
{
    int64_t product;
    return __builtin_mul_overflow(value, m->cie->data_factor, &product) ? INT64_MAX : product;
}

static bool read_block(struct reader *r, const uint8_t **bytes, uint32_t *size)
{
    uint64_t length = read_uleb(r);
    *bytes = r->at;
    reader_skip(r, length);
    *size = (uint32_t)length;
    return !r->failed;
}

static void set_expression(struct machine *m, struct reader *r, uint8_t kind)
{
    struct cfi_rule rule = {.kind = kind};
    uint64_t reg = read_uleb(r);
    if (read_block(r, &rule.expression, &rule.size))
        set_rule(m, reg, rule);
}

/* The row so far holds up to the new pc. */
static bool advance(struct machine *m, uint64_t pc)
{
    if (pc < m->pc)
        return false;
    if (pc > m->pc && m->emit)
        m->emit(m->context, (uint32_t)(m->pc - m->cfi->file->base), &m->row, m->cie->signal_frame);
    m->pc = pc;
    return true;
}

static bool advance_by(struct machine *m, uint64_t delta)
{
    uint64_t bytes, pc;
    if (__builtin_mul_overflow(delta, m->cie->code_factor, &bytes) ||
        __builtin_add_overflow(m->pc, bytes, &pc))
        return false;
    return advance(m, pc);
}

static bool remember(struct machine *m)
{
    if (m->remembered_count == MOST_REMEMBERED)
        return false;
    if (!m->remembered)
        m->remembered = must_calloc(MOST_REMEMBERED, sizeof *m->remembered);
    m->remembered[m->remembered_count++] = m->row;
    return true;
}

/* Where a register of the caller is. False for an opcode that says nothing of it. */
static bool run_register(struct machine *m, struct reader *r, uint8_t op)
{
    uint64_t reg, other;
    switch (op) {
    case DW_CFA_offset_extended:
        reg = read_uleb(r);
        set_offset(m, reg, R_OFFSET, (int64_t)read_uleb(r));
        return true;
    case DW_CFA_offset_extended_sf:
        reg = read_uleb(r);
        set_offset(m, reg, R_OFFSET, read_sleb(r));
        return true;
    case CFA_GNU_NEGATIVE_OFFSET:
        reg = read_uleb(r);
        set_offset(m, reg, R_OFFSET, (int64_t)-read_uleb(r));
        return true;
    case DW_CFA_val_offset:
        reg = read_uleb(r);
        set_offset(m, reg, R_VAL_OFFSET, (int64_t)read_uleb(r));
        return true;
    case DW_CFA_val_offset_sf:
        reg = read_uleb(r);
        set_offset(m, reg, R_VAL_OFFSET, read_sleb(r));
        return true;
    case DW_CFA_restore_extended:
        reg = read_uleb(r);
        if (reg < X86_COUNT)
            m->row.reg[reg] = m->initial.reg[reg];
        return true;
    case DW_CFA_undefined:
        set_rule(m, read_uleb(r), (struct cfi_rule){.kind = R_UNDEFINED});
        return true;
    case DW_CFA_same_value:
        set_rule(m, read_uleb(r), (struct cfi_rule){.kind = R_SAME});
        return true;
    case DW_CFA_register:
        reg = read_uleb(r);
        other = read_uleb(r);
        set_rule(m, reg,
                 (struct cfi_rule){.kind = R_REGISTER,
                                   .reg = other < X86_COUNT ? (uint8_t)other : X86_NONE});
        return true;
    case DW_CFA_expression:
        set_expression(m, r, R_EXPRESSION);
        return true;
    case DW_CFA_val_expression:
        set_expression(m, r, R_VAL_EXPRESSION);
        return true;
    default: /* other machines' opcodes */
        return false;
    }
}

/* The opcodes that keep an operand in their low six bits are handled by the caller. */
static bool run_extended(struct machine *m, struct reader *r, uint8_t op)
{
    uint64_t reg, pc;
    switch (op) {
    case DW_CFA_nop:
        return true;
    case DW_CFA_set_loc:
        return read_pointer(m->cfi, r, m->cie->pointer_encoding, &pc) && advance(m, pc);
    case DW_CFA_advance_loc1:
        return advance_by(m, read_u8(r));
    case DW_CFA_advance_loc2:
        return advance_by(m, read_u16(r));
    case DW_CFA_advance_loc4:
        return advance_by(m, read_u32(r));
    case CFA_ADVANCE_LOC8:
        return advance_by(m, read_u64(r));
    case DW_CFA_remember_state:
        return remember(m);
    case DW_CFA_restore_state:
        if (!m->remembered_count)
            return false;
        m->row = m->remembered[--m->remembered_count];
        return true;
    case DW_CFA_def_cfa:
        reg = read_uleb(r);
        set_cfa(m, reg, (int64_t)read_uleb(r));
        return true;
    case DW_CFA_def_cfa_sf:
        reg = read_uleb(r);
        set_cfa(m, reg, factored(m, read_sleb(r)));
        return true;
    case DW_CFA_def_cfa_register:
        set_cfa(m, read_uleb(r), m->row.cfa_offset);
        return true;
    case DW_CFA_def_cfa_offset:
        set_cfa(m, m->row.cfa_reg, (int64_t)read_uleb(r));
        return true;
    case DW_CFA_def_cfa_offset_sf:
        set_cfa(m, m->row.cfa_reg, factored(m, read_sleb(r)));
        return true;
    case DW_CFA_def_cfa_expression:
        m->row.cfa_is_expression = true;
        return read_block(r, &m->row.cfa_expression, &m->row.cfa_size);
    case CFA_GNU_ARGS_SIZE: /* matters to landing pads only */
        read_uleb(r);
        return true;
    default:
        return run_register(m, r, op);
    }
}

static bool run_program(struct machine *m, const uint8_t *program, const uint8_t *end)
{
    struct reader r = reader_over(program, (size_t)(end - program));
    while (reader_left(&r)) {
        uint8_t byte = read_u8(&r);
        uint8_t low = byte & 0x3f;
        bool good = true;
        switch (byte & 0xc0) {
        case DW_CFA_advance_loc:
            good = advance_by(m, low);
            break;
        case DW_CFA_offset:
            set_offset(m, low, R_OFFSET, (int64_t)read_uleb(&r));
            break;
        case DW_CFA_restore:
            if (low < X86_COUNT)
                m->row.reg[low] = m->initial.reg[low];
            break;
        default:
            good = run_extended(m, &r, byte);
            break;
        }
        if (!good || r.failed)
            return false;
        if (m->pc >= m->end && m->emit)
            return true; /* nothing behind the end can hold */
    }
    return true;
}

bool cfi_run(const struct cfi *cfi, const struct fde *fde, cfi_row_fn *emit, void *context,
             uint32_t *stopped)
{
    *stopped = fde->start;
    Dwarf_CFI_Entry entry;
    Dwarf_Off next;
    if (next_entry(cfi, fde->offset, &next, &entry) != 0 || dwarf_cfi_cie_p(&entry))
        return false;
    const struct cie *cie = &cfi->cies.items[fde->cie];
    struct reader r = reader_over(entry.fde.start, (size_t)(entry.fde.end - entry.fde.start));
    uint64_t start, size;
    if (!read_range(cfi, cie, &r, &start, &size))
        return false;
    struct machine m = {.cfi = cfi, .cie = cie, .pc = start, .end = start + size};
    m.row.cfa_reg = X86_NONE;
    bool good = run_program(&m, cie->program, cie->program_end);
    m.pc = start;
    m.initial = m.row;
    m.emit = emit;
    m.context = context;
    if (good)
        good = run_program(&m, r.at, r.end);
    if (good && m.pc < m.end)
        good = advance(&m, m.end);
    *stopped = (uint32_t)(m.pc - cfi->file->base);
    free(m.remembered);
    return good;
}

const struct fde *cfi_fde_at(const struct cfi *cfi, uint32_t offset)
{
    size_t i;
    SEARCH(i, cfi->fdes.count, cfi->fdes.items[i].start <= offset);
    return i && offset < cfi->fdes.items[i - 1].end ? &cfi->fdes.items[i - 1] : NULL;
}
