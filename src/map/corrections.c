/*
 * Each FDE is decoded once, in a straight line. Where an instruction moves rsp by a known amount
 * and the CFI says that the distance to the CFA changed by another, the code is followed on its own
 * account until both agree again, or to a ret that finds the stack as it was at the entry. Only
 * then was the code right and the CFI wrong. Everywhere else the CFI is believed: after a jump,
 * after a change in the CFI alone (two ways may meet there), and where rsp is computed.
 */
#include "map/corrections.h"

#include "arch/x86_64/code_bytes.h"
#include "map/decode.h"
#include "map/map.h"

#include <Zydis/Zydis.h>
#include <string.h>

enum { NOT_COUNTED = INT32_MIN, MOST_STEPS = 64 };

struct step {
    uint32_t pc;
    int32_t rsp_offset; /* CFA - rsp from here on */
    int32_t
        saved[AT_COUNT]; /* registers pushed without a word: at CFA - this; 0: as the CFI says */
};

/* A correction before its rule has a number. */
struct found {
    uint32_t start;
    uint32_t end;
    struct map_special rule;
};

struct corrections_finder {
    const struct map_tables *tables;
    const ZydisDecoder *decoder;
    VEC(struct found) found;
    uint32_t fde_end;
    bool moved;                    /* the instruction before did something to rsp */
    int32_t truth;                 /* CFA - rsp by the instructions, or NOT_COUNTED */
    int32_t said;                  /* by the CFI, at the instruction before */
    int32_t saved[AT_COUNT];       /* as in a step */
    struct step steps[MOST_STEPS]; /* of a disagreement that is not settled yet */
    unsigned step_count;
    bool rbp_is_back; /* behind the end of a realigned frame, whose CFI goes on using its rbp */
};

static struct map_special rule_at(const struct corrections_finder *c, uint32_t pc)
{
    int64_t row = map_find_row(c->tables, pc);
    return map_spell_rule(c->tables, row < 0 ? UINT32_MAX : (uint32_t)row);
}

/* CFA - rsp as the CFI has it; NOT_COUNTED where it counts from another register. */
static int32_t said_at(const struct map_special *s)
{
    return s->cfa_kind == CFA_REG && s->reg == X86_RSP ? s->offset : NOT_COUNTED;
}

static void add(struct corrections_finder *c, uint32_t start, uint32_t end,
                const struct map_special *rule)
{
    if (start >= end)
        return;
    vec_push(&c->found, (struct found){.start = start, .end = end, .rule = *rule});
    c->found.items[c->found.count - 1].rule.flags |= SPECIAL_GUESSED;
}

/* The disagreement is settled: the code was right, up to `end`. */
static void accept(struct corrections_finder *c, uint32_t end)
{
    for (unsigned i = 0; i < c->step_count; i++) {
        struct map_special s = rule_at(c, c->steps[i].pc);
        s.cfa_kind = CFA_REG;
        s.reg = X86_RSP;
        s.offset = c->steps[i].rsp_offset;
        for (unsigned k = 0; k < AT_COUNT; k++)
            if (c->steps[i].saved[k] && s.place[k].kind == PLACE_SAME)
                s.place[k] = (struct map_place){
                    .kind = PLACE_CFA, .reg = X86_NONE, .offset = -c->steps[i].saved[k]};
        add(c, c->steps[i].pc, i + 1 < c->step_count ? c->steps[i + 1].pc : end, &s);
    }
    c->step_count = 0;
}

static bool uses_rbp(const struct map_special *s)
{
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (s->place[i].kind == PLACE_MEMORY && s->place[i].reg == X86_RBP)
            return true;
    return false;
}

/* Is the frame still there? Then it was another way that has ended before this instruction. */
static bool counts_from_rbp(const struct map_special *s)
{
    return (s->cfa_kind == CFA_REG || s->cfa_kind == CFA_DEREF) && s->reg == X86_RBP;
}

/* Behind leave or pop %rbp, what was saved relative to rbp is in its register again. */
static void correct_places(struct corrections_finder *c, uint32_t pc, uint32_t end,
                           struct map_special s)
{
    for (unsigned i = 0; i < AT_COUNT; i++)
        if (s.place[i].kind == PLACE_MEMORY && s.place[i].reg == X86_RBP)
            s.place[i] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
    add(c, pc, end, &s);
}

/* How an instruction moves rsp: CFA - rsp grows by this; NOT_COUNTED if that cannot be told. */
static int32_t movement(struct corrections_finder *c, const struct instruction *instruction)
{
    const ZydisDecodedInstruction *i = &instruction->whole;
    if (instruction->is_plain)
        return 0;
    if (i->mnemonic == ZYDIS_MNEMONIC_PUSH || i->mnemonic == ZYDIS_MNEMONIC_PUSHFQ)
        return i->operand_width == 64 ? 8 : NOT_COUNTED;
    if (i->mnemonic == ZYDIS_MNEMONIC_LEAVE || i->mnemonic == ZYDIS_MNEMONIC_ENTER)
        return NOT_COUNTED;
    bool names_rsp = i->mnemonic == ZYDIS_MNEMONIC_POP || i->mnemonic == ZYDIS_MNEMONIC_POPFQ ||
                     ((i->attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
                      ((i->raw.modrm.mod == 3 && i->raw.modrm.rm == 4) || i->raw.modrm.reg == 4));
    if (!names_rsp)
        return 0;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeOperands(c->decoder, &instruction->context, i, o, i->operand_count)))
        return NOT_COUNTED;
    bool writes = false;
    for (unsigned k = 0; k < i->operand_count_visible; k++)
        writes |= o[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                  (o[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
                  ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, o[k].reg.value) ==
                      ZYDIS_REGISTER_RSP;
    switch (i->mnemonic) {
    case ZYDIS_MNEMONIC_POP:
    case ZYDIS_MNEMONIC_POPFQ:
        return i->operand_width == 64 && !writes ? -8 : NOT_COUNTED;
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_ADD:
        if (!writes)
            return 0;
        if (o[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
            o[1].imm.value.s != (int32_t)o[1].imm.value.s)
            return NOT_COUNTED;
        return (int32_t)(i->mnemonic == ZYDIS_MNEMONIC_SUB ? o[1].imm.value.s : -o[1].imm.value.s);
    case ZYDIS_MNEMONIC_LEA:
        if (!writes)
            return 0;
        if (o[1].mem.base != ZYDIS_REGISTER_RSP || o[1].mem.index != ZYDIS_REGISTER_NONE)
            return NOT_COUNTED;
        return (int32_t)-o[1].mem.disp.value;
    default:
        return writes ? NOT_COUNTED : 0;
    }
}

/* The CFI is right, or there is no telling. */
static void believe(struct corrections_finder *c, int32_t said)
{
    c->step_count = 0;
    c->truth = said;
    memset(c->saved, 0, sizeof c->saved);
}

/* push and pop of a register that belongs to the caller. */
static void track_saved(struct corrections_finder *c, const uint8_t *bytes)
{
    static const int8_t at[2][8] = {{-1, -1, -1, AT_RBX, -1, AT_RBP, -1, -1},
                                    {-1, -1, -1, -1, AT_R12, AT_R13, AT_R14, AT_R15}};
    unsigned rex = bytes[0] == 0x41;
    int which = at[rex][bytes[rex] & 7];
    if (which >= 0 && c->truth != NOT_COUNTED && (bytes[rex] & 0xf8) == 0x50)
        c->saved[which] = c->truth;
    if (which >= 0 && (bytes[rex] & 0xf8) == 0x58)
        c->saved[which] = 0;
}

static void disagree(struct corrections_finder *c, uint32_t pc)
{
    if (c->step_count == MOST_STEPS) {
        believe(c, NOT_COUNTED);
        return;
    }
    struct step *step = &c->steps[c->step_count++];
    *step = (struct step){.pc = pc, .rsp_offset = c->truth};
    memcpy(step->saved, c->saved, sizeof step->saved);
}

/*
 * Compares both at the instruction at `pc`. `moved` is what the one before did to rsp, `changed`
 * whether the CFI has changed its mind since then.
 */
static void compare(struct corrections_finder *c, uint32_t pc, int32_t said, bool moved)
{
    bool changed = said != c->said;
    if (c->truth == NOT_COUNTED || said == NOT_COUNTED) {
        believe(c, said);
    } else if (said == c->truth) {
        accept(c, pc);
        memset(c->saved, 0, sizeof c->saved);
    } else if (!moved && (changed || !c->step_count)) {
        believe(c, said); /* two ways meet here: the CFI knows the other one */
    } else if (!c->step_count || moved) {
        disagree(c, pc);
    }
    c->said = said;
}

/*
 * Where the function of a makecontext stack returns to (glibc's __start_context): mov %rbx,%rsp;
 * then uc_link into %rdi, and test %rdi,%rdi. There is no caller, and the CFI does not say so.
 * Nothing calls it, so its first byte is a return address, which is looked up one byte before.
 */
static bool is_context_start(const uint8_t *bytes, uint64_t size)
{
    static const char *const codes[] = {"\x48\x89\xdc\x48\x8b\x3c\x24\x48\x85\xff",
                                        "\x48\x89\xdc\x5f\x48\x85\xff"};
    if (size > ENDBR64_BYTES && code_is_endbr64(bytes)) {
        bytes += ENDBR64_BYTES;
        size -= ENDBR64_BYTES;
    }
    for (unsigned i = 0; i < 2; i++)
        if (size >= strlen(codes[i]) && memcmp(bytes, codes[i], strlen(codes[i])) == 0)
            return true;
    return false;
}

/*
 * glibc's swapcontext, from where it has taken the other context's rsp to where it has pushed that
 * one's pc: everything is in the context that one register points to, and the CFI goes on as if
 * nothing had happened. (In setcontext the same code has such a rule.) `bytes` begin with the load
 * of rsp at `pc`. Only loads from the context may come between, and the push must be of one.
 */
static void correct_switch(struct corrections_finder *c, const uint8_t *bytes, uint32_t pc,
                           uint32_t fde_end)
{
    static const uint8_t at_reg[AT_COUNT] = {X86_RIP, X86_RSP, X86_RBX, X86_RBP,
                                             X86_R12, X86_R13, X86_R14, X86_R15};
    ZydisDecodedInstruction i;
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    int32_t from[X86_COUNT];
    uint32_t seen = 0, start = 0, end = pc;
    uint8_t base = X86_NONE;
    for (;;) {
        if (!ZYAN_SUCCESS(
                ZydisDecoderDecodeFull(c->decoder, bytes + (end - pc), fde_end - end, &i, o)))
            return;
        end += i.length;
        if (start && i.mnemonic == ZYDIS_MNEMONIC_PUSH)
            break;
        if (i.mnemonic != ZYDIS_MNEMONIC_MOV || i.operand_width != 64 ||
            o[0].type != ZYDIS_OPERAND_TYPE_REGISTER || o[1].type != ZYDIS_OPERAND_TYPE_MEMORY ||
            o[1].mem.index != ZYDIS_REGISTER_NONE || o[1].mem.segment == ZYDIS_REGISTER_FS)
            return;
        uint8_t reg = decode_register(o[0].reg.value);
        if (!start) {
            base = decode_register(o[1].mem.base);
            start = end;
            if (reg != X86_RSP || base == X86_NONE || base == X86_RSP || base == X86_RBP)
                return;
        }
        if (reg == X86_NONE || reg == base || decode_register(o[1].mem.base) != base)
            return;
        from[reg] = (int32_t)o[1].mem.disp.value;
        seen |= 1u << reg;
    }
    uint8_t pushed = o[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? decode_register(o[0].reg.value)
                                                              : (uint8_t)X86_NONE;
    if (pushed == X86_NONE || !(seen >> pushed & 1))
        return;
    from[X86_RIP] = from[pushed];
    seen |= 1u << X86_RIP;
    struct map_special s = {.cfa_kind = CFA_REG, .reg = base, .index_reg = X86_NONE};
    for (unsigned at = 0; at < AT_COUNT; at++) {
        s.place[at] = (struct map_place){.kind = PLACE_SAME, .reg = X86_NONE};
        if (seen >> at_reg[at] & 1)
            s.place[at] =
                (struct map_place){.kind = PLACE_CFA, .reg = X86_NONE, .offset = from[at_reg[at]]};
    }
    add(c, start, end, &s);
}

/* What follows such an instruction is reached from elsewhere, if at all. */
static bool ends_a_way(const struct instruction *i)
{
    if (i->is_plain)
        return i->bytes[0] == 0xe9 || i->bytes[0] == 0xeb || i->bytes[0] == 0xcc;
    return i->whole.mnemonic == ZYDIS_MNEMONIC_RET || i->whole.mnemonic == ZYDIS_MNEMONIC_JMP ||
           i->whole.mnemonic == ZYDIS_MNEMONIC_UD2 || i->whole.mnemonic == ZYDIS_MNEMONIC_HLT;
}

bool corrections_fde(struct corrections_finder *c, const struct fde *fde, const uint8_t *bytes)
{
    if (is_context_start(bytes, fde->end - fde->start)) {
        struct found end = {
            .start = fde->start ? fde->start - 1 : 0, .end = fde->end, .rule.cfa_kind = CFA_END};
        vec_push(&c->found, end);
        return false;
    }
    believe(c, NOT_COUNTED);
    c->said = NOT_COUNTED;
    c->rbp_is_back = false;
    c->moved = false;
    c->fde_end = fde->end;
    return true;
}

void corrections_take(struct corrections_finder *c, const struct instruction *i,
                      const struct map_special *rule)
{
    ZydisMnemonic mnemonic = i->is_plain ? ZYDIS_MNEMONIC_INVALID : i->whole.mnemonic;
    compare(c, i->pc, said_at(rule), c->moved);
    c->rbp_is_back &= !counts_from_rbp(rule);
    if (c->rbp_is_back && uses_rbp(rule))
        correct_places(c, i->pc, i->next, *rule);
    if (mnemonic == ZYDIS_MNEMONIC_RET) {
        if (c->truth == 8)
            accept(c, i->next);
        believe(c, NOT_COUNTED);
    }
    if (ends_a_way(i))
        c->rbp_is_back = false;
    int32_t by = movement(c, i);
    if (by == NOT_COUNTED && mnemonic == ZYDIS_MNEMONIC_MOV && said_at(rule) != NOT_COUNTED)
        correct_switch(c, i->bytes, i->pc, c->fde_end);
    c->moved = by != 0;
    if (c->truth != NOT_COUNTED)
        c->truth = by == NOT_COUNTED ? NOT_COUNTED : c->truth + by;
    if (mnemonic == ZYDIS_MNEMONIC_PUSH || mnemonic == ZYDIS_MNEMONIC_POP)
        track_saved(c, i->bytes);
    if (mnemonic == ZYDIS_MNEMONIC_LEAVE || (mnemonic == ZYDIS_MNEMONIC_POP && i->bytes[0] == 0x5d))
        c->rbp_is_back = uses_rbp(rule);
}

static int by_start(const void *a, const void *b)
{
    const struct map_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

struct corrections_finder *corrections_begin(const struct map_tables *tables,
                                             const ZydisDecoder *decoder)
{
    struct corrections_finder *c = must_calloc(1, sizeof *c);
    c->tables = tables;
    c->decoder = decoder;
    return c;
}

void corrections_end(struct corrections_finder *c, struct unwind_table *table,
                     struct corrections *out)
{
    for (size_t i = 0; i < c->found.count; i++) {
        const struct found *f = &c->found.items[i];
        struct unwind_rule rule = f->rule.cfa_kind == CFA_END ? unwind_fixed(SPECIAL_END)
                                                              : unwind_special(table, &f->rule);
        vec_push(&out->items,
                 (struct map_range){.start = f->start, .end = f->end, .value = rule.rule});
    }
    vec_free(&c->found);
    free(c);
}

void corrections_sort(struct corrections *corrections)
{
    if (corrections->items.count)
        qsort(corrections->items.items, corrections->items.count, sizeof *corrections->items.items,
              by_start);
}
