/* Frames whose rules say more than how far the caller's is: signal frames, PLTs, other registers.
 */
#include "unwind/walk_inside.h"

static bool read_place(const struct map_place *place, const struct frame_registers *old,
                       uint64_t cfa, struct walk_memory *memory, uint64_t *value)
{
    switch (place->kind) {
    case PLACE_CFA:
        return walk_read_word(memory, cfa + (uint64_t)(int64_t)place->offset, value);
    case PLACE_MEMORY:
        return is_known(old, place->reg) &&
               walk_read_word(memory, old->value[place->reg] + (uint64_t)(int64_t)place->offset,
                              value);
    case PLACE_REG:
        if (!is_known(old, place->reg))
            return false;
        *value = old->value[place->reg];
        return true;
    default:
        return false;
    }
}

/*
 * The kernel's signal frame: rsp points at a ucontext, whose general registers begin at byte 40 in
 * the order below.
 */
static enum walk_end step_signal(struct frame_registers *r, struct walk_memory *memory)
{
    static const uint8_t order[] = {X86_R8,  X86_R9,  X86_R10, X86_R11, X86_R12, X86_R13,
                                    X86_R14, X86_R15, X86_RDI, X86_RSI, X86_RBP, X86_RBX,
                                    X86_RDX, X86_RAX, X86_RCX, X86_RSP, X86_RIP};
    uint64_t at = r->value[X86_RSP] + 40;
    for (unsigned i = 0; i < sizeof order; i++, at += 8)
        if (!walk_read_word(memory, at, &r->value[order[i]]))
            return WALK_MEMORY;
    r->known = ALL_REGISTERS;
    return WALK_COMPLETE;
}

/* What a missing register means: the full walk may still know it. */
static enum walk_end missing(unsigned reg, bool full)
{
    return reg < X86_COUNT && !full ? (enum walk_end)NEED_FULL : WALK_REGISTER;
}

static enum walk_end special_cfa(const struct map_special *s, const struct frame_registers *r,
                                 struct walk_memory *memory, bool full, uint64_t *cfa)
{
    uint64_t sp = r->value[X86_RSP];
    switch (s->cfa_kind) {
    case CFA_REG:
        if (!is_known(r, s->reg))
            return missing(s->reg, full);
        *cfa = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        return WALK_COMPLETE;
    case CFA_DEREF: {
        if (!is_known(r, s->reg))
            return missing(s->reg, full);
        uint64_t address = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        if (s->index_reg != X86_NONE) {
            if (!is_known(r, s->index_reg))
                return missing(s->index_reg, full);
            address += r->value[s->index_reg] * 8;
        }
        if (!walk_read_word(memory, address, cfa))
            return WALK_MEMORY;
        *cfa += (uint64_t)(int64_t)s->add;
        return WALK_COMPLETE;
    }
    case CFA_PLT:
        *cfa = sp + 8 + ((int)(r->value[X86_RIP] & 15) >= s->offset ? 8 : 0);
        return WALK_COMPLETE;
    case CFA_NONE:
        return WALK_NO_RULE;
    case CFA_SWITCHED:
        return WALK_SWITCHED;
    default:
        return WALK_UNKNOWN;
    }
}

enum walk_end walk_step_special(const struct map_special *s, struct frame_registers *r,
                                struct walk_memory *memory, bool full, uint64_t *slot)
{
    static const uint8_t at_reg[AT_COUNT] = {X86_RIP, X86_RSP, X86_RBX, X86_RBP,
                                             X86_R12, X86_R13, X86_R14, X86_R15};
    *slot = 0;
    if (s->cfa_kind == CFA_SIGNAL)
        return step_signal(r, memory);
    uint64_t cfa;
    enum walk_end end = special_cfa(s, r, memory, full, &cfa);
    if (end != WALK_COMPLETE)
        return end;
    struct frame_registers caller = *r;
    for (unsigned i = 0; i < AT_COUNT; i++) {
        unsigned reg = at_reg[i];
        const struct map_place *place = &s->place[i];
        if (place->kind == PLACE_SAME)
            continue;
        if (read_place(place, r, cfa, memory, &caller.value[reg])) {
            caller.known |= 1u << reg;
        } else {
            caller.known &= ~(1u << reg);
            if (reg == X86_RBP && place->reg < X86_COUNT && !is_known(r, place->reg) &&
                missing(place->reg, full) == (enum walk_end)NEED_FULL)
                return (enum walk_end)NEED_FULL;
        }
    }
    const struct map_place *ra = &s->place[AT_RIP];
    if (!is_known(&caller, X86_RIP))
        return ra->kind == PLACE_CFA || ra->kind == PLACE_MEMORY ? WALK_MEMORY
                                                                 : missing(ra->reg, full);
    if (s->place[AT_RSP].kind == PLACE_SAME)
        caller.value[X86_RSP] = cfa;
    else if (!is_known(&caller, X86_RSP))
        return missing(s->place[AT_RSP].reg, full);
    /* longjmp says outright where it goes, which may be another stack. */
    if (caller.value[X86_RSP] < r->value[X86_RSP] && s->place[AT_RSP].kind == PLACE_SAME &&
        !(s->flags & SPECIAL_OTHER_STACK))
        return WALK_NO_PROGRESS;
    if (ra->kind == PLACE_CFA)
        *slot = cfa + (uint64_t)(int64_t)ra->offset;
    *r = caller;
    return WALK_COMPLETE;
}
