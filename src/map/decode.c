#include "map/decode.h"

#include <Zydis/Zydis.h>
#include <string.h>

/* What is known before an instruction. */
struct state {
    bool reached;
    uint8_t
        base; /* what the CFA is counted from: X86_RSP, X86_RBP, the copy; X86_NONE: not known */
    uint8_t copy;       /* a register with a copy of rsp, made before it was aligned; or X86_NONE */
    int32_t rsp_offset; /* CFA - rsp; kept while base is X86_RSP */
    int32_t rbp_offset; /* CFA - rbp, when rbp is a frame pointer; else NO_FRAME */
    int32_t copy_offset;   /* CFA - copy */
    int8_t slot[AT_COUNT]; /* register saved at CFA - 8 * slot; 0: unchanged; or CLOBBERED */
};

enum { NO_FRAME = INT32_MIN, MOST_FRAME = 1 << 28, MOST_SLOT = 120, CLOBBERED = -1 };

/* Longer stretches without CFI are not functions of assembly but data, or stripped of CFI. */
enum { MOST_BYTES = 1 << 22 };

struct follower {
    ZydisDecoder decoder;
    const uint8_t *bytes;
    uint32_t start;
    uint32_t end;
    struct state *states;  /* one for each byte of the stretch */
    uint8_t *is_entry;     /* the same: a function begins here */
    uint32_t *connected;   /* the same: union-find over instructions that control flows between */
    uint8_t *inconsistent; /* by the root of such a set: something in it cannot be right */
    uint16_t *writes;      /* by the root: the general registers that it writes */
    VEC(uint32_t) todo;
};

static const struct state entry_state = {
    .reached = true, .base = X86_RSP, .copy = X86_NONE, .rsp_offset = 8, .rbp_offset = NO_FRAME};

/* What the CFA can be counted from when rsp is of no use. */
static uint8_t base_without_rsp(const struct state *s)
{
    return s->rbp_offset != NO_FRAME ? X86_RBP : s->copy;
}

/*
 * Joins what two ways to one instruction say. Each change says less than before (counted from rsp,
 * then from rbp or a copy, then not known), so following ends. Returns whether `there` changed.
 */
static bool join(struct state *there, const struct state *s)
{
    struct state joined = *there;
    if (there->rbp_offset != s->rbp_offset)
        joined.rbp_offset = NO_FRAME;
    if (there->copy != s->copy || there->copy_offset != s->copy_offset)
        joined.copy = X86_NONE;
    if (there->base != s->base || (s->base == X86_RSP && there->rsp_offset != s->rsp_offset) ||
        joined.base != X86_RSP)
        joined.base = there->base == X86_NONE ? X86_NONE : base_without_rsp(&joined);
    for (unsigned at = 0; at < AT_COUNT; at++) {
        if (there->slot[at] == s->slot[at])
            continue;
        if (there->slot[at] > 0 || s->slot[at] > 0)
            joined.base = X86_NONE;
        joined.slot[at] = CLOBBERED; /* on one of the ways */
    }
    if (joined.base == there->base && joined.rbp_offset == there->rbp_offset &&
        joined.copy == there->copy && memcmp(joined.slot, there->slot, sizeof joined.slot) == 0)
        return false;
    *there = joined;
    return true;
}

static uint32_t root_of(struct follower *f, uint32_t offset)
{
    uint32_t i = offset - f->start;
    while (f->connected[i] != i) {
        f->connected[i] = f->connected[f->connected[i]];
        i = f->connected[i];
    }
    return i;
}

static void connect(struct follower *f, uint32_t a, uint32_t b)
{
    uint32_t x = root_of(f, a), y = root_of(f, b);
    f->connected[y] = x;
    f->inconsistent[x] |= f->inconsistent[y];
    f->writes[x] |= f->writes[y];
}

/* Control reaches `offset` in this state. */
static void reach(struct follower *f, uint32_t offset, const struct state *s)
{
    if (offset < f->start || offset >= f->end)
        return;
    struct state *there = &f->states[offset - f->start];
    if (!there->reached) {
        *there = *s;
        vec_push(&f->todo, offset);
    } else if (join(there, s)) {
        vec_push(&f->todo, offset);
    }
}

static int at_of(ZydisRegister reg)
{
    switch (reg) {
    case ZYDIS_REGISTER_RBX:
        return AT_RBX;
    case ZYDIS_REGISTER_RBP:
        return AT_RBP;
    case ZYDIS_REGISTER_R12:
        return AT_R12;
    case ZYDIS_REGISTER_R13:
        return AT_R13;
    case ZYDIS_REGISTER_R14:
        return AT_R14;
    case ZYDIS_REGISTER_R15:
        return AT_R15;
    default:
        return -1;
    }
}

/* The number of a general register, whatever part of it is named; X86_NONE for others. */
uint8_t decode_register(int reg)
{
    static const uint8_t by_id[] = {X86_RAX, X86_RCX, X86_RDX, X86_RBX, X86_RSP, X86_RBP,
                                    X86_RSI, X86_RDI, X86_R8,  X86_R9,  X86_R10, X86_R11,
                                    X86_R12, X86_R13, X86_R14, X86_R15};
    ZydisRegister whole =
        ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, (ZydisRegister)reg);
    return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15
               ? by_id[whole - ZYDIS_REGISTER_RAX]
               : X86_NONE;
}

static void lose_stack(struct state *s)
{
    s->base = base_without_rsp(s);
}

/* rsp becomes CFA - offset. */
static void set_rsp_offset(struct state *s, int64_t offset)
{
    if (offset < 8 || offset > MOST_FRAME) { /* below 8 the return address itself was popped */
        lose_stack(s);
        return;
    }
    s->base = X86_RSP;
    s->rsp_offset = (int32_t)offset;
}

static void do_push(struct state *s, const ZydisDecodedOperand *operand)
{
    if (s->base != X86_RSP)
        return;
    set_rsp_offset(s, (int64_t)s->rsp_offset + 8);
    int at = operand->type == ZYDIS_OPERAND_TYPE_REGISTER ? at_of(operand->reg.value) : -1;
    if (at >= 0 && !s->slot[at] && s->base == X86_RSP && s->rsp_offset / 8 <= MOST_SLOT)
        s->slot[at] = (int8_t)(s->rsp_offset / 8);
}

static void do_pop(struct state *s, const ZydisDecodedOperand *operand)
{
    int at = operand->type == ZYDIS_OPERAND_TYPE_REGISTER ? at_of(operand->reg.value) : -1;
    if (at >= 0) {
        bool own = s->base == X86_RSP && s->slot[at] * 8 == s->rsp_offset;
        if (own || s->base != X86_RSP)
            s->slot[at] = 0; /* what was saved there is back */
        else if (!s->slot[at])
            s->slot[at] = CLOBBERED;
    }
    if (at == AT_RBP) {
        s->rbp_offset = NO_FRAME;
        if (s->base == X86_RBP)
            lose_stack(s);
    }
    if (s->base == X86_RSP)
        set_rsp_offset(s, (int64_t)s->rsp_offset - 8);
}

static bool is_reg(const ZydisDecodedOperand *o, ZydisRegister reg)
{
    return o->type == ZYDIS_OPERAND_TYPE_REGISTER && o->reg.value == reg;
}

/* add, sub, and, lea or mov with rsp as the destination. */
static void do_rsp_arithmetic(struct state *s, const ZydisDecodedInstruction *i,
                              const ZydisDecodedOperand *o)
{
    bool by_constant = o[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
    bool from_rsp = o[1].type == ZYDIS_OPERAND_TYPE_MEMORY && o[1].mem.base == ZYDIS_REGISTER_RSP &&
                    o[1].mem.index == ZYDIS_REGISTER_NONE;
    bool from_rbp = o[1].type == ZYDIS_OPERAND_TYPE_MEMORY && o[1].mem.base == ZYDIS_REGISTER_RBP &&
                    o[1].mem.index == ZYDIS_REGISTER_NONE;
    if (i->mnemonic == ZYDIS_MNEMONIC_SUB && by_constant && s->base == X86_RSP)
        set_rsp_offset(s, s->rsp_offset + o[1].imm.value.s);
    else if (i->mnemonic == ZYDIS_MNEMONIC_ADD && by_constant && s->base == X86_RSP)
        set_rsp_offset(s, s->rsp_offset - o[1].imm.value.s);
    else if (i->mnemonic == ZYDIS_MNEMONIC_LEA && from_rsp && s->base == X86_RSP)
        set_rsp_offset(s, s->rsp_offset - o[1].mem.disp.value);
    else if (i->mnemonic == ZYDIS_MNEMONIC_LEA && from_rbp && s->rbp_offset != NO_FRAME)
        set_rsp_offset(s, s->rbp_offset - o[1].mem.disp.value);
    else if (i->mnemonic == ZYDIS_MNEMONIC_MOV && is_reg(&o[1], ZYDIS_REGISTER_RBP) &&
             s->rbp_offset != NO_FRAME)
        set_rsp_offset(s, s->rbp_offset);
    else if (i->mnemonic == ZYDIS_MNEMONIC_MOV && s->copy != X86_NONE &&
             o[1].type == ZYDIS_OPERAND_TYPE_REGISTER && decode_register(o[1].reg.value) == s->copy)
        set_rsp_offset(s, s->copy_offset);
    else
        lose_stack(s);
}

static void do_leave(struct state *s)
{
    if (s->rbp_offset == NO_FRAME) {
        s->base = X86_NONE;
        s->copy = X86_NONE;
        return;
    }
    set_rsp_offset(s, (int64_t)s->rbp_offset - 8);
    s->rbp_offset = NO_FRAME;
    s->slot[AT_RBP] = 0;
}

/* mov %reg, n(%rsp) or n(%rbp): a register that still has its caller's value is saved there. */
static bool do_save(struct state *s, const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    if (i->mnemonic != ZYDIS_MNEMONIC_MOV || o[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
        o[1].type != ZYDIS_OPERAND_TYPE_REGISTER || o[0].mem.index != ZYDIS_REGISTER_NONE)
        return false;
    int at = at_of(o[1].reg.value);
    int64_t below;
    if (o[0].mem.base == ZYDIS_REGISTER_RSP && s->base == X86_RSP)
        below = s->rsp_offset - o[0].mem.disp.value;
    else if (o[0].mem.base == ZYDIS_REGISTER_RBP && s->rbp_offset != NO_FRAME)
        below = s->rbp_offset - o[0].mem.disp.value;
    else
        return false;
    if (at >= 0 && !s->slot[at] && below >= 16 && below % 8 == 0 && below / 8 <= MOST_SLOT)
        s->slot[at] = (int8_t)(below / 8);
    return true;
}

/* mov n(%rsp), %reg: it may be the saved value coming back. */
static bool is_restore(const struct state *s, const ZydisDecodedInstruction *i,
                       const ZydisDecodedOperand *o, int at)
{
    if (i->mnemonic != ZYDIS_MNEMONIC_MOV || o[1].type != ZYDIS_OPERAND_TYPE_MEMORY ||
        o[1].mem.index != ZYDIS_REGISTER_NONE || s->slot[at] <= 0)
        return false;
    int64_t below = o[1].mem.base == ZYDIS_REGISTER_RSP && s->base == X86_RSP
                        ? s->rsp_offset - o[1].mem.disp.value
                    : o[1].mem.base == ZYDIS_REGISTER_RBP && s->rbp_offset != NO_FRAME
                        ? s->rbp_offset - o[1].mem.disp.value
                        : 0;
    return below == 8 * s->slot[at];
}

/* A register other than rsp is written: it becomes a copy of rsp, or the copy is gone. */
static void do_copy(struct state *s, const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                    uint8_t written)
{
    if (written == X86_NONE || written == X86_RBP)
        return;
    if (i->mnemonic == ZYDIS_MNEMONIC_MOV && is_reg(&o[1], ZYDIS_REGISTER_RSP) &&
        s->base == X86_RSP) {
        s->copy = written;
        s->copy_offset = s->rsp_offset;
    } else if (written == s->copy) {
        s->copy = X86_NONE;
        if (s->base == written)
            s->base = X86_NONE;
    }
}

/* The state behind an instruction that does not transfer control. */
static void apply(struct state *s, const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o)
{
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
        do_push(s, &o[0]);
        return;
    case ZYDIS_MNEMONIC_PUSHFQ:
        do_push(s, &(ZydisDecodedOperand){.type = ZYDIS_OPERAND_TYPE_UNUSED});
        return;
    case ZYDIS_MNEMONIC_POP:
        do_pop(s, &o[0]);
        if (is_reg(&o[0], ZYDIS_REGISTER_RSP))
            lose_stack(s);
        return;
    case ZYDIS_MNEMONIC_POPFQ:
        do_pop(s, &(ZydisDecodedOperand){.type = ZYDIS_OPERAND_TYPE_UNUSED});
        return;
    case ZYDIS_MNEMONIC_LEAVE:
        do_leave(s);
        return;
    case ZYDIS_MNEMONIC_CALL: /* rsp is back when it returns */
        return;
    default:
        break;
    }
    if (do_save(s, i, o))
        return;
    for (unsigned k = 0; k < i->operand_count; k++) {
        if (o[k].type != ZYDIS_OPERAND_TYPE_REGISTER ||
            !(o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
            continue;
        ZydisRegister whole =
            ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, o[k].reg.value);
        int at = at_of(whole);
        if (whole == ZYDIS_REGISTER_RSP)
            do_rsp_arithmetic(s, i, o);
        else
            do_copy(s, i, o, decode_register(whole));
        if (whole == ZYDIS_REGISTER_RBP) {
            s->rbp_offset = i->mnemonic == ZYDIS_MNEMONIC_MOV &&
                                    is_reg(&o[1], ZYDIS_REGISTER_RSP) && s->base == X86_RSP
                                ? s->rsp_offset
                                : NO_FRAME;
            if (s->base == X86_RBP && s->rbp_offset == NO_FRAME)
                lose_stack(s);
        }
        if (at >= 0 && is_restore(s, i, o, at))
            s->slot[at] = 0;
        else if (at >= 0 && !s->slot[at])
            s->slot[at] = CLOBBERED;
    }
}

static bool never_returns(const ZydisDecodedInstruction *i)
{
    return i->mnemonic == ZYDIS_MNEMONIC_JMP || i->mnemonic == ZYDIS_MNEMONIC_RET ||
           i->mnemonic == ZYDIS_MNEMONIC_HLT || i->mnemonic == ZYDIS_MNEMONIC_UD2 ||
           i->mnemonic == ZYDIS_MNEMONIC_INT3;
}

static void note_writes(struct follower *f, uint32_t offset, const ZydisDecodedInstruction *i,
                        const ZydisDecodedOperand *o)
{
    for (unsigned k = 0; k < i->operand_count; k++) {
        uint8_t reg =
            o[k].type == ZYDIS_OPERAND_TYPE_REGISTER ? decode_register(o[k].reg.value) : X86_NONE;
        if (reg != X86_NONE && (o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
            f->writes[root_of(f, offset)] |= (uint16_t)(1u << reg);
    }
}

/* Follows control from one place until it joins what is known. */
static void follow(struct follower *f, uint32_t offset)
{
    while (offset < f->end) {
        struct state s = f->states[offset - f->start];
        ZydisDecodedInstruction i;
        ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&f->decoder, f->bytes + (offset - f->start),
                                                 f->end - offset, &i, o))) {
            f->inconsistent[root_of(f, offset)] = 1; /* this is no code */
            return;
        }
        uint32_t next = offset + i.length;
        bool branch = i.meta.category == ZYDIS_CATEGORY_COND_BR ||
                      i.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
        if (branch && o[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && o[0].imm.is_relative) {
            int64_t target = (int64_t)next + o[0].imm.value.s;
            if (target >= f->start && target < f->end && !f->is_entry[target - f->start]) {
                reach(f, (uint32_t)target, &s);
                connect(f, offset, (uint32_t)target);
            }
        }
        /* A function returns with the stack as it found it, or it was not followed rightly. */
        if (i.mnemonic == ZYDIS_MNEMONIC_RET && (s.base != X86_RSP || s.rsp_offset != 8))
            f->inconsistent[root_of(f, offset)] = 1;
        /* What goes on into another function is a call that does not return. */
        if (never_returns(&i) || next >= f->end || f->is_entry[next - f->start])
            return;
        apply(&s, &i, o);
        note_writes(f, offset, &i, o);
        connect(f, offset, next);
        struct state *there = &f->states[next - f->start];
        if (there->reached) {
            reach(f, next, &s);
            return;
        }
        *there = s;
        offset = next;
    }
}

uint32_t decode_padding(const struct elf_file *file, uint32_t offset, uint32_t end)
{
    const struct code_range *code = elf_code_at(file, file->base + offset);
    if (!code || end - offset > code->end - (file->base + offset))
        return 0;
    const uint8_t *bytes = code->bytes + (file->base + offset - code->start);
    uint32_t n = 0, size = end - offset;
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    while (n < size) {
        ZydisDecodedInstruction i;
        if (bytes[n] == 0xcc || bytes[n] == 0x90 || bytes[n] == 0) {
            n++;
            continue;
        }
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes + n, size - n, &i)) ||
            i.mnemonic != ZYDIS_MNEMONIC_NOP)
            break;
        n += i.length;
    }
    return n;
}

static void append_state(struct unwind_table *table, uint32_t pc, const struct state *s)
{
    if (!s->reached || s->base == X86_NONE) {
        unwind_append(table, pc, unwind_fixed(SPECIAL_NONE));
        return;
    }
    struct map_special special = {.cfa_kind = CFA_REG,
                                  .reg = s->base,
                                  .index_reg = X86_NONE,
                                  .flags = SPECIAL_GUESSED,
                                  .offset = s->base == X86_RSP   ? s->rsp_offset
                                            : s->base == X86_RBP ? s->rbp_offset
                                                                 : s->copy_offset};
    for (unsigned at = 0; at < AT_COUNT; at++) {
        special.place[at] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
        if (s->slot[at] == CLOBBERED) {
            special.place[at].kind = PLACE_LOST;
        } else if (s->slot[at]) {
            special.place[at].kind = PLACE_CFA;
            special.place[at].offset = -8 * s->slot[at];
        }
    }
    special.place[AT_RIP] = (struct map_place){.kind = PLACE_CFA, .reg = X86_NONE, .offset = -8};
    unwind_append(table, pc, unwind_special(table, &special));
}

/*
 * While a function is called, the copy of rsp that its caller has in a register is still there only
 * if the function does not write that register, which is known of those that were followed and make
 * no calls themselves.
 */
static bool call_loses_copy(struct follower *f, const struct state *s,
                            const ZydisDecodedInstruction *i, const ZydisDecodedOperand *o,
                            uint32_t next)
{
    if (i->mnemonic != ZYDIS_MNEMONIC_CALL || s->base == X86_RSP || s->base == X86_RBP ||
        s->base == X86_NONE)
        return false;
    if (o[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !o[0].imm.is_relative)
        return true;
    int64_t target = (int64_t)next + o[0].imm.value.s;
    if (target < f->start || target >= f->end || !f->states[target - f->start].reached)
        return true;
    uint32_t callee = root_of(f, (uint32_t)target);
    return f->inconsistent[callee] || (f->writes[callee] >> s->base & 1) ||
           (f->writes[callee] >> X86_RSP & 1);
}

/* One row for each instruction that was reached; equal neighbours join. */
static uint32_t append_states(struct unwind_table *table, struct follower *f)
{
    static const struct state unknown = {.base = X86_NONE};
    uint32_t described = 0;
    for (uint32_t offset = f->start; offset < f->end;) {
        ZydisDecodedInstruction i;
        ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
        uint32_t length = 1;
        const struct state *s = &f->states[offset - f->start];
        if (s->reached && f->inconsistent[root_of(f, offset)])
            s = &unknown;
        if (s->reached &&
            ZYAN_SUCCESS(ZydisDecoderDecodeFull(&f->decoder, f->bytes + (offset - f->start),
                                                f->end - offset, &i, o))) {
            length = i.length;
            if (call_loses_copy(f, s, &i, o, offset + length))
                s = &unknown;
        }
        append_state(table, offset, s);
        if (s->reached && s->base != X86_NONE)
            described += length;
        offset += length;
    }
    return described;
}

static void follow_all(struct follower *f)
{
    for (uint32_t i = 0; i < f->end - f->start; i++)
        if (f->is_entry[i])
            reach(f, f->start + i, &entry_state);
    while (f->todo.count)
        follow(f, f->todo.items[--f->todo.count]);
}

uint32_t decode_straight_line(const struct elf_file *file, uint32_t offset, uint32_t end)
{
    const struct code_range *code = elf_code_at(file, file->base + offset);
    ZydisDecoder decoder;
    ZydisDecodedInstruction i;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    while (code && offset < end) {
        const uint8_t *bytes = code->bytes + (file->base + offset - code->start);
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, end - offset, &i)))
            return offset;
        offset += i.length;
        if (never_returns(&i))
            return offset;
    }
    return end;
}

uint32_t decode_rows(struct unwind_table *table, const struct elf_file *file, uint32_t start,
                     uint32_t end, const uint32_t *entries, size_t entry_count)
{
    const struct code_range *code = elf_code_at(file, file->base + start);
    if (!code || start >= end || end - start > MOST_BYTES) {
        unwind_append(table, start, unwind_fixed(SPECIAL_NONE));
        return 0;
    }
    uint32_t size = end - start;
    struct follower f = {.bytes = code->bytes + (file->base + start - code->start),
                         .start = start,
                         .end = end,
                         .states = must_calloc(size, sizeof *f.states),
                         .is_entry = must_calloc(size, sizeof *f.is_entry),
                         .connected = must_calloc(size, sizeof *f.connected),
                         .inconsistent = must_calloc(size, sizeof *f.inconsistent),
                         .writes = must_calloc(size, sizeof *f.writes)};
    ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (uint32_t i = 0; i < size; i++)
        f.connected[i] = i;
    for (size_t k = 0; k < entry_count; k++)
        if (entries[k] >= start && entries[k] < end)
            f.is_entry[entries[k] - start] = 1;
    follow_all(&f);
    uint32_t described = append_states(table, &f);
    vec_free(&f.todo);
    free(f.states);
    free(f.is_entry);
    free(f.connected);
    free(f.inconsistent);
    free(f.writes);
    return described;
}
