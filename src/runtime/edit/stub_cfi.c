/*
 * One FDE for all stubs of a region. There may be half a million of them, written while the program
 * waits to start: what describes them is read by the unwinder, where it needs it, from the tables
 * that the runtime itself has (rows.h). DWARF expressions do that: they look for the stub by its
 * start, and for its row.
 *
 * It is the frame of a signal handler, as far as unwinders are concerned ('S'): the address that it
 * leads to is where the function is, not where it is returned to.
 *
 * Things to know about those who read it:
 *
 * - elfutils looks for an instruction where a branch leads to: the end of an expression is none. It
 *   allows 4,096 steps, of which a search in half a million stubs takes 500. DW_OP_deref_size in
 *   the expression of a CFA makes it crash: all reads are of 8 bytes. It does not know that rbx is
 *   preserved, where no rule says so.
 * - LLVM's libunwind has no DW_OP_nop. Version 14 does not know what 'S' is for, and looks up the
 *   address before the one that was interrupted.
 * - The other libunwind takes the CFA for rsp, whatever the rule for rsp says. Its backtrace() has
 *   a quick way that takes all frames of signal handlers for the kernel's; it goes the slow way
 *   where a rule needs more than rsp, rbp and rip: so the CFA's has a look at r12.
 * - libgcc knows the frame that has the handler of an exception by its CFA, which is where rsp was
 *   when the one below was entered, and by being interrupted or not. Where a signal comes in a stub
 *   that has nothing on the stack, those are the same for the stub and its function, and it aborts.
 *   So it has an FDE of its own, with a CFA that is 4 bytes further up, and a rule for rsp.
 * - libgcc aborts where DW_OP_pick picks the lowest of all. It reads a register of which it knows
 *   nothing from address 0: see ROW_RETURNS.
 */
#include "runtime/edit/stub_cfi.h"

#include "edit/plan_format.h"
#include "runtime/edit/emit.h"
#include "runtime/edit/rows.h"

/* DWARF's numbers. */
enum {
    CFA_NOP = 0x00,
    CFA_SAME_VALUE = 0x08,
    CFA_DEF_CFA = 0x0c,
    CFA_DEF_CFA_EXPRESSION = 0x0f,
    CFA_VAL_EXPRESSION = 0x16,
    CFA_OFFSET = 0x80,
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_CONST2U = 0x0a,
    OP_CONST4U = 0x0c,
    OP_CONST8U = 0x0e,
    OP_DUP = 0x12,
    OP_DROP = 0x13,
    OP_OVER = 0x14,
    OP_PICK = 0x15,
    OP_SWAP = 0x16,
    OP_ROT = 0x17,
    OP_AND = 0x1a,
    OP_MINUS = 0x1c,
    OP_MUL = 0x1e,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_SHR = 0x25,
    OP_XOR = 0x27,
    OP_BRA = 0x28,
    OP_LE = 0x2c,
    OP_SKIP = 0x2f,
    OP_LIT0 = 0x30,
    OP_BREG0 = 0x70,
    RAX = 0,
    RDX = 1,
    RCX = 2,
    RSP = 7,
    R12 = 12,
    RIP = 16,
    PCREL_SDATA4 = 0x1b,
    UDATA4 = 0x03,
    DATAREL_SDATA4 = 0x3b
};

enum { FDE_BYTES = 24, TABLE_ENTRY_BYTES = 8, GCC_SHIFT = 4 };

static_assert(offsetof(struct plan_site, offset) == 0, "as an offset alone");

/* A read of 8 bytes ends in the next row, or in the table behind the shapes. */
static_assert(sizeof(struct stub_layout) == 8 && sizeof(struct stub_shape) == 4,
              "the expressions shift by 3 and by 2");
static_assert(offsetof(struct stub_row, rdx) + 8 <= 2 * sizeof(struct stub_row), "a row follows");

/* --- pieces of expressions -------------------------------------------------------------------- */

static void emit_bytes(struct emitter *e, const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        *e->at++ = bytes[i];
}

#define OPS(e, ...)                                                                                \
    do {                                                                                           \
        const uint8_t ops[] = {__VA_ARGS__};                                                       \
        emit_bytes(e, ops, sizeof ops);                                                            \
    } while (0)

static void push_address(struct emitter *e, uint64_t address)
{
    emit_u8(e, OP_CONST8U);
    emit_u32(e, (uint32_t)address);
    emit_u32(e, (uint32_t)(address >> 32));
}

/*
 * Reads 8 bytes from the address on the stack, and takes a field of a structure that begins there,
 * by its place and size in bytes.
 */
static void read_field(struct emitter *e, unsigned place, unsigned bytes)
{
    OPS(e, OP_DEREF);
    if (place)
        OPS(e, OP_CONST1U, (uint8_t)(8 * place), OP_SHR);
    if (bytes == 1)
        OPS(e, OP_CONST1U, 0xff, OP_AND);
    else if (bytes == 2)
        OPS(e, OP_CONST2U, 0xff, 0xff, OP_AND);
    else
        OPS(e, OP_CONST4U, 0xff, 0xff, 0xff, 0xff, OP_AND);
}

#define READ_FIELD(e, type, field)                                                                 \
    read_field(e, offsetof(struct type, field), sizeof(((struct type *)0)->field))

/* Branches have 16 bits, from their own end. */
static void set_branch(uint8_t *end, const uint8_t *target)
{
    end[-2] = (uint8_t)(target - end);
    end[-1] = (uint8_t)((target - end) >> 8);
}

static uint8_t *branch(struct emitter *e, uint8_t op)
{
    OPS(e, op, 0, 0);
    return e->at;
}

static void branch_to(struct emitter *e, uint8_t op, const uint8_t *target)
{
    set_branch(branch(e, op), target);
}

/* Leaves [place from the start of the code, index of the site]: the last that begins there or
 * before. */
static void find_stub(struct emitter *e, const struct region_tables *t, const uint8_t *code)
{
    OPS(e, OP_BREG0 + RIP, 0);
    push_address(e, (uint64_t)code);
    OPS(e, OP_MINUS, OP_LIT0, OP_CONST4U);
    emit_u32(e, t->site_count);
    const uint8_t *again = e->at; /* [place, low, high] */
    OPS(e, OP_OVER, OP_OVER, OP_SWAP, OP_MINUS, OP_LIT0 + 1, OP_LE);
    uint8_t *found = branch(e, OP_BRA);
    OPS(e, OP_OVER, OP_OVER, OP_PLUS, OP_LIT0 + 1, OP_SHR); /* [.., middle] */
    OPS(e, OP_DUP, OP_LIT0 + 3, OP_SHL);
    push_address(e, (uint64_t)t->layouts);
    OPS(e, OP_PLUS);
    READ_FIELD(e, stub_layout, start);
    OPS(e, OP_PICK, 4, OP_LE); /* [.., middle, its start <= place] */
    uint8_t *upper = branch(e, OP_BRA);
    OPS(e, OP_SWAP, OP_DROP); /* [place, low, middle] */
    branch_to(e, OP_SKIP, again);
    set_branch(upper, e->at);
    OPS(e, OP_ROT, OP_SWAP, OP_DROP); /* [place, middle, high] */
    branch_to(e, OP_SKIP, again);
    set_branch(found, e->at);
    OPS(e, OP_DROP);
}

/* From there on: [place from the code's start, index, place from the stub's start, row]. */
static void find_row(struct emitter *e, const struct region_tables *t, const uint8_t *code)
{
    enum { NEXT = sizeof(struct stub_row) };
    find_stub(e, t, code);
    OPS(e, OP_DUP, OP_LIT0 + 3, OP_SHL);
    push_address(e, (uint64_t)t->layouts);
    OPS(e, OP_PLUS, OP_DUP);
    READ_FIELD(e, stub_layout, start);              /* [.., layout, its start] */
    OPS(e, OP_PICK, 3, OP_SWAP, OP_MINUS, OP_SWAP); /* [.., place, layout] */
    READ_FIELD(e, stub_layout, shape);
    OPS(e, OP_LIT0 + 2, OP_SHL);
    push_address(e, (uint64_t)t->shapes);
    OPS(e, OP_PLUS);
    READ_FIELD(e, stub_shape, first_row);
    OPS(e, OP_LIT0 + NEXT, OP_MUL);
    push_address(e, (uint64_t)t->rows);
    OPS(e, OP_PLUS);
    uint8_t *first = branch(e, OP_SKIP);
    const uint8_t *next = e->at;
    OPS(e, OP_PLUS_UCONST, NEXT);
    set_branch(first, e->at);
    OPS(e, OP_DUP, OP_PLUS_UCONST, NEXT);
    READ_FIELD(e, stub_row, at);
    OPS(e, OP_PICK, 2, OP_LE);
    branch_to(e, OP_BRA, next);
}

/* --- the rules -------------------------------------------------------------------------------- */

/* An expression's length has two bytes, whatever it is. */
static uint8_t *begin_expression(struct emitter *e)
{
    OPS(e, 0x80, 0);
    return e->at;
}

static void end_expression(const struct emitter *e, uint8_t *begin)
{
    begin[-2] = (uint8_t)((e->at - begin) & 0x7f) | 0x80;
    begin[-1] = (uint8_t)((e->at - begin) >> 7);
}

static void emit_cfa(struct emitter *e, const struct region_tables *t, const uint8_t *code,
                     uint8_t shift)
{
    OPS(e, CFA_DEF_CFA_EXPRESSION);
    uint8_t *begin = begin_expression(e);
    OPS(e, OP_BREG0 + R12, 0, OP_DROP);
    find_row(e, t, code);
    READ_FIELD(e, stub_row, words);
    OPS(e, OP_LIT0 + 3, OP_SHL, OP_BREG0 + RSP, 0, OP_PLUS, OP_PLUS_UCONST, shift);
    end_expression(e, begin);
    if (shift)
        OPS(e, CFA_VAL_EXPRESSION, RSP, 2, (uint8_t)(OP_LIT0 + shift), OP_MINUS);
}

static void emit_return_address(struct emitter *e, const struct region_tables *t,
                                const uint8_t *code)
{
    OPS(e, CFA_VAL_EXPRESSION, RIP);
    uint8_t *begin = begin_expression(e);
    find_row(e, t, code); /* [.., index, place, row] */
    OPS(e, OP_DUP);
    READ_FIELD(e, stub_row, pc);
    OPS(e, OP_CONST2U, 0, 0x80, OP_XOR, OP_CONST2U, 0, 0x80, OP_MINUS); /* its sign */
    OPS(e, OP_OVER);
    READ_FIELD(e, stub_row, flags);
    OPS(e, OP_LIT0 + ROW_MOVES, OP_AND, OP_PICK, 3, OP_PICK, 3); /* [.., pc, 0 or 1, place, row] */
    READ_FIELD(e, stub_row, at);
    OPS(e, OP_MINUS, OP_MUL, OP_PLUS); /* with the way from the row */
    OPS(e, OP_PICK, 3, OP_CONST1U, t->offsets ? sizeof(uint32_t) : sizeof(struct plan_site),
        OP_MUL);
    push_address(e, t->offsets ? (uint64_t)t->offsets : (uint64_t)t->sites);
    OPS(e, OP_PLUS);
    READ_FIELD(e, plan_site, offset);
    OPS(e, OP_PLUS);
    push_address(e, t->base);
    OPS(e, OP_PLUS);
    end_expression(e, begin);
}

/* A register, from the stack or as it is; `field` is where the row says which. */
static void emit_register(struct emitter *e, const struct region_tables *t, const uint8_t *code,
                          uint8_t number, uint8_t field, uint8_t shift)
{
    OPS(e, CFA_VAL_EXPRESSION, number);
    uint8_t *begin = begin_expression(e); /* [CFA] */
    OPS(e, OP_DUP);
    find_row(e, t, code); /* [CFA, CFA, place, index, place, row] */
    OPS(e, OP_DUP, OP_PLUS_UCONST, field);
    read_field(e, 0, 1);
    OPS(e, OP_DUP);
    uint8_t *saved = branch(e, OP_BRA); /* [.., row, word] */
    OPS(e, OP_DROP);
    READ_FIELD(e, stub_row, flags);
    OPS(e, OP_LIT0 + ROW_RETURNS, OP_AND, OP_LIT0, OP_SWAP);
    uint8_t *unknown = branch(e, OP_BRA); /* [.., 0] */
    OPS(e, (uint8_t)(OP_BREG0 + number), 0);
    uint8_t *end = branch(e, OP_SKIP);
    set_branch(saved, e->at);
    OPS(e, OP_LIT0 + 3, OP_SHL, OP_PICK, 5, OP_SWAP, OP_MINUS);
    OPS(e, (uint8_t)(OP_LIT0 + shift), OP_MINUS, OP_DEREF);
    set_branch(unknown, e->at);
    OPS(e, OP_LIT0);
    set_branch(end, e->at);
    OPS(e, OP_PLUS); /* of 0: the branch needs a target, and LLVM knows no nop */
    end_expression(e, begin);
}

static void emit_rules(struct emitter *e, const struct region_tables *t, const uint8_t *code,
                       uint8_t shift)
{
    emit_cfa(e, t, code, shift);
    emit_return_address(e, t, code);
    emit_register(e, t, code, RAX, offsetof(struct stub_row, rax), shift);
    emit_register(e, t, code, RCX, offsetof(struct stub_row, rcx), shift);
    emit_register(e, t, code, RDX, offsetof(struct stub_row, rdx), shift);
}

/* --- entries ---------------------------------------------------------------------------------- */

/* The length of an entry, when it is written, in whole words. */
static void end_entry(struct emitter *e, uint8_t *entry)
{
    while ((e->at - entry - 4) % 4)
        OPS(e, CFA_NOP);
    struct emitter length = {.at = entry};
    emit_u32(&length, (uint32_t)(e->at - entry - 4));
}

static uint8_t *emit_cie(struct emitter *e, bool is_signal_frame)
{
    uint8_t *cie = e->at;
    EMIT(e, "\0\0\0\0\0\0\0\0\1zR"); /* length, not an FDE, version */
    if (is_signal_frame)
        EMIT(e, "S");
    OPS(e, 0, 1, 0x78, RIP, 1, PCREL_SDATA4); /* data in words of 8 bytes, downwards */
    if (!is_signal_frame)
        OPS(e, CFA_DEF_CFA, RSP, 8, CFA_OFFSET + RIP, 1);
    for (uint8_t number = 0; is_signal_frame && number < RIP; number++)
        if (number != RAX && number != RCX && number != RDX && number != RSP)
            OPS(e, CFA_SAME_VALUE, number);
    end_entry(e, cie);
    return cie;
}

/* An FDE but for its instructions. */
static uint8_t *begin_fde(struct emitter *e, const uint8_t *cie, const uint8_t *start,
                          uint32_t bytes)
{
    uint8_t *fde = e->at;
    emit_u32(e, 0);
    emit_u32(e, (uint32_t)(e->at - cie));
    emit_u32(e, (uint32_t)(start - e->at));
    emit_u32(e, bytes);
    OPS(e, 0); /* no more of the augmentation */
    return fde;
}

/* The header, with a table that is filled in later. */
static uint8_t *emit_table(struct emitter *e, const uint8_t *eh_frame, uint32_t count)
{
    OPS(e, 1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4);
    emit_u32(e, (uint32_t)(eh_frame - e->at));
    emit_u32(e, count);
    uint8_t *table = e->at;
    e->at += (size_t)count * TABLE_ENTRY_BYTES;
    return table;
}

static void set_entry(uint8_t *table, const uint8_t *header, uint32_t index, const uint8_t *start,
                      const uint8_t *fde)
{
    struct emitter e = {.at = table + (size_t)index * TABLE_ENTRY_BYTES};
    emit_u32(&e, (uint32_t)(start - header));
    emit_u32(&e, (uint32_t)(fde - header));
}

uint64_t region_cfi_bytes(const struct region_code *others, uint32_t count)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += FDE_BYTES + others[i].cfi_bytes + 2ul * TABLE_ENTRY_BYTES;
    return bytes;
}

/* LLVM 14 looks for the byte before the one that was interrupted: it is a stub's, too, if it is no
 * other code's. */
static const uint8_t *begin_of_stubs(const struct region_tables *t, const uint8_t *code)
{
    const uint8_t *stubs = code + t->layouts[0].start;
    const struct region_code *before = t->other_count ? &t->others[t->other_count - 1] : NULL;
    return stubs > (before ? before->start + before->bytes : code) ? stubs - 1 : stubs;
}

/* The FDE of all stubs, and its entry in a table. */
static void emit_stubs(struct emitter *e, const uint8_t *cie, const struct region_tables *t,
                       const uint8_t *code, uint8_t shift, uint8_t *table, const uint8_t *header)
{
    const struct stub_layout *last = &t->layouts[t->site_count - 1];
    const uint8_t *stubs = begin_of_stubs(t, code);
    uint8_t *fde = begin_fde(e, cie, stubs, (uint32_t)(code + last->start + last->bytes - stubs));
    emit_rules(e, t, code, shift);
    end_entry(e, fde);
    set_entry(table, header, t->other_count, stubs, fde);
}

void stub_cfi_write(uint8_t *at, const struct region_tables *t, const uint8_t *code,
                    struct stub_cfi *out)
{
    const uint32_t count = t->other_count + (t->site_count != 0);
    struct emitter e = {.at = at};
    out->eh_frame_hdr = e.at;
    out->eh_frame = e.at + 12 + count * (size_t)TABLE_ENTRY_BYTES;
    uint8_t *table = emit_table(&e, out->eh_frame, count);
    const uint8_t *plain = emit_cie(&e, false), *signal = emit_cie(&e, true);
    const uint8_t *first = e.at;
    for (uint32_t i = 0; i < t->other_count; i++) {
        const struct region_code *other = &t->others[i];
        uint8_t *fde = begin_fde(&e, plain, other->start, other->bytes);
        emit_bytes(&e, other->cfi, other->cfi_bytes);
        end_entry(&e, fde);
        set_entry(table, out->eh_frame_hdr, i, other->start, fde);
    }
    if (t->site_count)
        emit_stubs(&e, signal, t, code, 0, table, out->eh_frame_hdr);
    emit_u32(&e, 0);
    out->eh_frame_end = e.at;

    out->eh_frame_hdr_gcc = e.at;
    uint8_t *table_gcc = emit_table(&e, out->eh_frame, count);
    for (uint32_t i = 0; i < t->other_count; i++) {
        set_entry(table_gcc, out->eh_frame_hdr_gcc, i, t->others[i].start, first);
        first += 4 + *(const uint32_t *)first; /* to the next: its length comes first */
    }
    if (t->site_count)
        emit_stubs(&e, signal, t, code, GCC_SHIFT, table_gcc, out->eh_frame_hdr_gcc);
    emit_u32(&e, 0);
    out->end = e.at;
}
