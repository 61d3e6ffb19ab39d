/*
 * Which registers are in use before each instruction.
 *
 * A call may read all registers that have arguments, and is not taken to change any: compilers keep
 * values in registers across calls of functions that they know not to touch them. So a register is
 * free only where nothing in the function reads it before it is written again.
 */
#include "flow/routine.h"

#include "base/search.h"

#define BITS(first, last) (((UINT64_C(2) << ((last) - (first))) - 1) << (first))

/* rbx, rsp, rbp, r12 to r15 */
#define PRESERVED (REG_BIT(3) | REG_BIT(REG_RSP) | REG_BIT(5) | BITS(12, 15))
#define ARGUMENTS                                                                                  \
    (REG_BIT(REG_RAX) | REG_BIT(REG_RCX) | REG_BIT(REG_RDX) | REG_BIT(REG_RSI) |                   \
     REG_BIT(REG_RDI) | REG_BIT(REG_R8) | REG_BIT(REG_R9) | BITS(REG_XMM0, REG_XMM0 + 7))

flow_set flow_at_return(void)
{
    return PRESERVED | REG_BIT(REG_RAX) | REG_BIT(REG_RDX) | BITS(REG_XMM0, REG_XMM0 + 1);
}

static unsigned set_number(ZydisRegister r)
{
    ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);
    if (whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15)
        return (unsigned)(whole - ZYDIS_REGISTER_RAX);
    ZydisRegisterClass class = ZydisRegisterGetClass(r);
    if (class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM || class == ZYDIS_REGCLASS_ZMM) {
        ZyanI8 id = ZydisRegisterGetId(r);
        return id < 16 ? REG_XMM0 + (unsigned)id : REG_NONE;
    }
    return REG_NONE;
}

static bool is_whole(ZydisRegister r)
{
    ZydisRegisterClass class = ZydisRegisterGetClass(r);
    return class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64;
}

/* Does an instruction leave nothing of what was in the vector register that it writes? */
static bool fills_vector(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *operands)
{
    bool is_same = operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                   operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                   operands[0].reg.value == operands[1].reg.value;
    switch (d->mnemonic) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_PSHUFD:
        return operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
        return operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
               operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY;
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
        return is_same;
    default:
        return false;
    }
}

static void add_register(struct flow_insn *i, const ZydisDecodedOperand *o, flow_set *mentions)
{
    unsigned number = set_number(o->reg.value);
    if (number == REG_NONE)
        return;
    *mentions |= REG_BIT(number);
    bool is_sure = is_whole(o->reg.value) && !(o->actions & ZYDIS_OPERAND_ACTION_CONDWRITE);
    if (!(o->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) ||
        (o->actions & ZYDIS_OPERAND_ACTION_MASK_READ) || number >= REG_XMM0)
        i->uses |= REG_BIT(number);
    else if (is_sure)
        i->kills |= REG_BIT(number);
}

static void add_flags(struct flow_insn *i, const ZydisDecodedInstruction *d)
{
    const ZydisAccessedFlagsMask all = ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF |
                                       ZYDIS_CPUFLAG_ZF | ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF;
    if (!d->cpu_flags)
        return;
    if (d->cpu_flags->tested & all)
        i->uses |= REG_BIT(REG_FLAGS);
    ZydisAccessedFlagsMask written = d->cpu_flags->modified | d->cpu_flags->set_0 |
                                     d->cpu_flags->set_1 | d->cpu_flags->undefined;
    bool may_skip =
        d->meta.category == ZYDIS_CATEGORY_SHIFT || d->meta.category == ZYDIS_CATEGORY_ROTATE ||
        (d->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE));
    if ((written & all) == all && !may_skip)
        i->kills |= REG_BIT(REG_FLAGS);
    if (d->mnemonic == ZYDIS_MNEMONIC_PUSHF || d->mnemonic == ZYDIS_MNEMONIC_PUSHFQ ||
        d->mnemonic == ZYDIS_MNEMONIC_LAHF)
        i->uses |= REG_BIT(REG_FLAGS);
}

/* Instructions that save or change vector registers without naming them. */
static bool is_about_all(ZydisMnemonic m)
{
    return m == ZYDIS_MNEMONIC_VZEROALL || m == ZYDIS_MNEMONIC_FXSAVE ||
           m == ZYDIS_MNEMONIC_FXSAVE64 || m == ZYDIS_MNEMONIC_FXRSTOR ||
           m == ZYDIS_MNEMONIC_FXRSTOR64 || m == ZYDIS_MNEMONIC_XSAVE ||
           m == ZYDIS_MNEMONIC_XSAVE64 || m == ZYDIS_MNEMONIC_XSAVEC ||
           m == ZYDIS_MNEMONIC_XSAVEC64 || m == ZYDIS_MNEMONIC_XSAVEOPT ||
           m == ZYDIS_MNEMONIC_XSAVEOPT64 || m == ZYDIS_MNEMONIC_XRSTOR ||
           m == ZYDIS_MNEMONIC_XRSTOR64;
}

static void add_vectors(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *operands,
                        struct flow_insn *i)
{
    if (d->operand_count < 2 || !fills_vector(d, operands))
        return;
    unsigned to = set_number(operands[0].reg.value);
    bool reads_it = operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
                    set_number(operands[1].reg.value) == to && d->mnemonic != ZYDIS_MNEMONIC_PXOR &&
                    d->mnemonic != ZYDIS_MNEMONIC_XORPS && d->mnemonic != ZYDIS_MNEMONIC_XORPD;
    if (to >= REG_XMM0 && to < REG_FLAGS && !reads_it) {
        i->uses &= ~REG_BIT(to);
        i->kills |= REG_BIT(to);
    }
}

void flow_effects(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *operands,
                  struct flow_insn *i, flow_set *mentions)
{
    for (unsigned k = 0; k < d->operand_count; k++) {
        const ZydisDecodedOperand *o = &operands[k];
        if (o->type == ZYDIS_OPERAND_TYPE_REGISTER) {
            add_register(i, o, mentions);
        } else if (o->type == ZYDIS_OPERAND_TYPE_MEMORY) {
            unsigned base = set_number(o->mem.base), index = set_number(o->mem.index);
            i->uses |=
                (base != REG_NONE ? REG_BIT(base) : 0) | (index != REG_NONE ? REG_BIT(index) : 0);
        }
    }
    add_flags(i, d);
    *mentions |= i->uses & ~REG_BIT(REG_FLAGS);
    add_vectors(d, operands, i);
    if (d->mnemonic == ZYDIS_MNEMONIC_SYSCALL)
        i->uses |= ARGUMENTS | REG_BIT(REG_R10);
    if (is_about_all(d->mnemonic)) {
        i->uses |= BITS(REG_XMM0, REG_XMM0 + 15);
        *mentions |= BITS(REG_XMM0, REG_XMM0 + 15);
    }
    i->kills &= ~i->uses;
    *mentions |= i->uses & ~REG_BIT(REG_FLAGS);
}

/* r10 and r11 have arguments only where the function itself puts something there, or where a
 * function that is called directly reads them. */
static flow_set used_by_call(const struct routine *r, const struct flow_insn *i)
{
    flow_set unusual = REG_BIT(REG_R10) | REG_BIT(REG_R11);
    flow_set set = ARGUMENTS | PRESERVED | (r->mentions & unusual);
    const struct flow_summary *callee = i->is_direct ? flow_summary_at(r->module, i->target) : NULL;
    return callee ? set | callee->needs : set;
}

static flow_set used_at_end(const struct routine *r, const struct flow_insn *i)
{
    if (i->kind == INSN_RETURN)
        return i->uses | flow_at_return() | r->held;
    return i->uses | used_by_call(r, i) | flow_at_return() | r->held; /* perhaps a tail call */
}

static flow_set live_before(const struct routine *r, struct flow_insn *i, flow_set live)
{
    switch (i->kind) {
    case INSN_CALL:
        return live | i->uses | used_by_call(r, i);
    case INSN_RETURN:
        return live | used_at_end(r, i);
    case INSN_INDIRECT:
        return live | used_at_end(r, i) | r->over_jumps;
    case INSN_STOP:
        return flow_at_return();
    default:
        return (live & ~i->kills) | i->uses;
    }
}

/*
 * In the midst of other code, such as a part whose function nobody has named. As long as that has
 * not been read: all registers that are named here or there.
 */
static flow_set used_in_midst(const struct routine *r, uint32_t offset)
{
    const struct flow_module *m = r->module;
    size_t i;
    SEARCH(i, m->live_landings.count, m->live_landings.items[i].offset < offset);
    if (i < m->live_landings.count && m->live_landings.items[i].offset == offset)
        return m->live_landings.items[i].live | flow_at_return() | r->held;
    const struct map_function *there = map_find_function(m->map, offset);
    const struct flow_summary *s =
        there ? flow_summary_at(m, map_whole_of(m->map, there)->start) : NULL;
    flow_set named = r->mentions | (s ? s->mentions : ~UINT64_C(0));
    return named | ARGUMENTS | flow_at_return() | r->held | REG_BIT(REG_FLAGS);
}

/* Does a block go on elsewhere, and what is used there? */
static flow_set used_elsewhere(const struct routine *r, const struct flow_block *b)
{
    const struct flow_module *m = r->module;
    const struct flow_insn *last = &r->insns.items[b->end - 1];
    flow_set set = 0;
    bool is_branch =
        last->kind == INSN_JUMP || last->kind == INSN_BRANCH || last->kind == INSN_COUNTED;
    if (is_branch && b->taken_block == FLOW_NONE) {
        const struct flow_insn jump = {.is_direct = true, .target = last->target};
        bool is_known = flow_summary_at(m, last->target) ||
                        elf_is_plt(elf_code_at(m->file, m->file->base + last->target));
        set = is_known ? used_by_call(r, &jump) | flow_at_return() | r->held
                       : used_in_midst(r, last->target);
    }
    bool falls =
        last->kind == INSN_PLAIN || last->kind == INSN_BRANCH || last->kind == INSN_COUNTED;
    return falls && b->fall_block == FLOW_NONE ? set | used_in_midst(r, last->offset + last->length)
                                               : set;
}

static bool update(struct routine *r, struct flow_block *b)
{
    struct flow_block *all = r->blocks.items;
    flow_set live = used_elsewhere(r, b);
    if (b->taken_block != FLOW_NONE)
        live |= r->insns.items[all[b->taken_block].first].live;
    if (b->fall_block != FLOW_NONE)
        live |= r->insns.items[all[b->fall_block].first].live;
    b->live_out = live;
    flow_set before = r->insns.items[b->first].live;
    for (uint32_t k = b->end; k-- > b->first;)
        live = r->insns.items[k].live = live_before(r, &r->insns.items[k], live);
    return live != before;
}

/* Compilers compare before a switch what each of its cases then asks for. */
static flow_set flags_at_landings(const struct routine *r)
{
    flow_set live = 0;
    for (size_t k = 0; k < r->blocks.count; k++)
        if (r->blocks.items[k].is_landing)
            live |= r->insns.items[r->blocks.items[k].first].live;
    return live & REG_BIT(REG_FLAGS);
}

void routine_live(struct routine *r)
{
    for (bool again = true; again;) {
        again = false;
        if (r->over_jumps != flags_at_landings(r)) {
            r->over_jumps = REG_BIT(REG_FLAGS);
            again = true;
        }
        for (size_t k = r->blocks.count; k-- > 0;)
            if (r->blocks.items[k].is_reached)
                again |= update(r, &r->blocks.items[k]);
    }
}
