/*
 * The walker. Two copies of one loop are compiled: the fast one follows rsp, rbp and the pc, which is
 * all that nearly every frame needs; the full one also recovers rbx and r12 to r15. A walk starts
 * fast, and starts over in full when it meets a frame that needs one of the others (the dynamic
 * linker's lazy binder keeps its CFA in rbx, libmvec in r13).
 */
#include "runtime/walk.h"

#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

const char *const walk_end_names[WALK_END_COUNT] = {
    [WALK_COMPLETE] = "complete",
    [WALK_LIMIT] = "frame limit",
    [WALK_NO_MODULE] = "code outside every module",
    [WALK_NO_MAP] = "module without a map",
    [WALK_NO_RULE] = "code without unwind information",
    [WALK_UNKNOWN] = "unwind rule that cannot be expressed",
    [WALK_REGISTER] = "register lost in an inner frame",
    [WALK_MEMORY] = "stack leads to unreadable memory",
    [WALK_NO_PROGRESS] = "stack does not go up",
};

enum {
    CALLEE_SAVED = 1 << REG_RBX | 1 << REG_RBP | 1 << REG_RSP | 1 << REG_R12 | 1 << REG_R13 |
                   1 << REG_R14 | 1 << REG_R15,
    ALL_REGISTERS = (1 << REG_COUNT) - 1,
    NEED_FULL = WALK_END_COUNT, /* not an end: the fast walk cannot go on */
};

/* Registers of the frame at hand, and which of them are known. */
struct frame_registers {
    uint64_t value[REG_COUNT];
    uint32_t known;
};

static __attribute__((noinline, cold)) bool find_memory(struct walk_memory *m, uint64_t address)
{
    return m->find_memory && m->find_memory(m, address) && address >= m->start &&
           m->end - m->start >= 8 && address - m->start <= m->end - m->start - 8;
}

static inline __attribute__((always_inline)) bool read_word(struct walk_memory *m, uint64_t address,
                                                            uint64_t *value)
{
    /* One comparison for both bounds; end - 8 cannot wrap, since a range is never shorter. */
    if (unlikely(address - m->start > m->end - 8 - m->start || m->end - m->start < 8) &&
        !find_memory(m, address))
        return false;
    memcpy(value, (const void *)(uintptr_t)(address + m->bias), sizeof *value);
    return true;
}

static uint32_t find_module(const struct walk_modules *modules, uint64_t pc)
{
    uint32_t low = 0, high = modules->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (modules->items[middle].end <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low < modules->count && pc >= modules->items[low].start ? low : UINT32_MAX;
}

static bool known(const struct frame_registers *r, unsigned reg)
{
    return reg < REG_COUNT && (r->known >> reg & 1);
}

static bool read_place(const struct map_place *place, const struct frame_registers *old,
                       uint64_t cfa, struct walk_memory *memory, uint64_t *value)
{
    switch (place->kind) {
    case PLACE_CFA:
        return read_word(memory, cfa + (uint64_t)(int64_t)place->offset, value);
    case PLACE_MEMORY:
        return known(old, place->reg) &&
               read_word(memory, old->value[place->reg] + (uint64_t)(int64_t)place->offset, value);
    case PLACE_REG:
        if (!known(old, place->reg))
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
    static const uint8_t order[] = {REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13,
                                    REG_R14, REG_R15, REG_RDI, REG_RSI, REG_RBP, REG_RBX,
                                    REG_RDX, REG_RAX, REG_RCX, REG_RSP, REG_RIP};
    uint64_t at = r->value[REG_RSP] + 40;
    for (unsigned i = 0; i < sizeof order; i++, at += 8)
        if (!read_word(memory, at, &r->value[order[i]]))
            return WALK_MEMORY;
    r->known = ALL_REGISTERS;
    return WALK_COMPLETE;
}

/* What a missing register means: the full walk may still know a callee-saved one. */
static enum walk_end missing(unsigned reg, bool full)
{
    bool may_be_saved = reg < REG_COUNT && (CALLEE_SAVED >> reg & 1);
    return may_be_saved && !full ? (enum walk_end)NEED_FULL : WALK_REGISTER;
}

static enum walk_end special_cfa(const struct map_special *s, const struct frame_registers *r,
                                 struct walk_memory *memory, bool full, uint64_t *cfa)
{
    uint64_t sp = r->value[REG_RSP];
    switch (s->cfa_kind) {
    case CFA_REG:
        if (!known(r, s->reg))
            return missing(s->reg, full);
        *cfa = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        return WALK_COMPLETE;
    case CFA_DEREF: {
        if (!known(r, s->reg))
            return missing(s->reg, full);
        uint64_t address = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        if (s->index_reg != REG_NONE) {
            if (!known(r, s->index_reg))
                return missing(s->index_reg, full);
            address += r->value[s->index_reg] * 8;
        }
        if (!read_word(memory, address, cfa))
            return WALK_MEMORY;
        *cfa += (uint64_t)(int64_t)s->add;
        return WALK_COMPLETE;
    }
    case CFA_PLT:
        *cfa = sp + 8 + ((int)(r->value[REG_RIP] & 15) >= s->offset ? 8 : 0);
        return WALK_COMPLETE;
    case CFA_NONE:
        return WALK_NO_RULE;
    default:
        return WALK_UNKNOWN;
    }
}

/*
 * A step by a special rule. On return `r` holds the caller's registers. WALK_COMPLETE means that the
 * step was made (the outermost frame is found before); anything else ends the walk.
 */
static __attribute__((noinline)) enum walk_end step_special(const struct map_special *s,
                                                            struct frame_registers *r,
                                                            struct walk_memory *memory, bool full,
                                                            uint64_t *slot)
{
    static const uint8_t at_reg[AT_COUNT] = {REG_RIP, REG_RSP, REG_RBX, REG_RBP,
                                             REG_R12, REG_R13, REG_R14, REG_R15};
    *slot = 0;
    if (s->cfa_kind == CFA_SIGNAL)
        return step_signal(r, memory);
    uint64_t cfa;
    enum walk_end end = special_cfa(s, r, memory, full, &cfa);
    if (end != WALK_COMPLETE)
        return end;
    struct frame_registers caller = *r;
    caller.known &= CALLEE_SAVED;
    for (unsigned i = 0; i < AT_COUNT; i++) {
        unsigned reg = at_reg[i];
        const struct map_place *place = &s->place[i];
        if (place->kind == PLACE_SAME)
            continue;
        if (read_place(place, r, cfa, memory, &caller.value[reg]))
            caller.known |= 1u << reg;
        else
            caller.known &= ~(1u << reg);
    }
    const struct map_place *ra = &s->place[AT_RIP];
    if (!known(&caller, REG_RIP))
        return ra->kind == PLACE_CFA || ra->kind == PLACE_MEMORY ? WALK_MEMORY
                                                                  : missing(ra->reg, full);
    if (s->place[AT_RSP].kind == PLACE_SAME)
        caller.value[REG_RSP] = cfa;
    else if (!known(&caller, REG_RSP))
        return missing(s->place[AT_RSP].reg, full);
    if (caller.value[REG_RSP] < r->value[REG_RSP])
        return WALK_NO_PROGRESS;
    if (ra->kind == PLACE_CFA)
        *slot = cfa + (uint64_t)(int64_t)ra->offset;
    *r = caller;
    return WALK_COMPLETE;
}

static inline bool restore(struct frame_registers *r, unsigned reg, unsigned slot, uint64_t cfa,
                           struct walk_memory *memory)
{
    if (!slot)
        return true;
    r->known |= 1u << reg;
    return read_word(memory, cfa - 8 * slot, &r->value[reg]);
}

/* The registers that only the full walk follows. */
static bool restore_others(struct frame_registers *r, uint32_t rule, unsigned saves, uint64_t cfa,
                           struct walk_memory *memory)
{
    r->known &= CALLEE_SAVED;
    return restore(r, REG_RBX, RULE_RBX_SLOT(rule), cfa, memory) &&
           restore(r, REG_R12, SAVES_SLOT(saves, REG_R12), cfa, memory) &&
           restore(r, REG_R13, SAVES_SLOT(saves, REG_R13), cfa, memory) &&
           restore(r, REG_R14, SAVES_SLOT(saves, REG_R14), cfa, memory) &&
           restore(r, REG_R15, SAVES_SLOT(saves, REG_R15), cfa, memory);
}

static inline __attribute__((always_inline)) struct walk_result
walk(const struct walk_modules *modules, const struct walk_registers *registers,
     struct walk_memory *outer_memory, struct walk_frame *frames, uint32_t room, const bool full)
{
    struct walk_memory memory = *outer_memory;
    struct frame_registers r;
    memcpy(r.value, registers->value, sizeof r.value);
    r.known = ALL_REGISTERS;

    uint64_t pc = r.value[REG_RIP], sp = r.value[REG_RSP], bp = r.value[REG_RBP];
    uint64_t back = 0; /* a return address is looked up one byte before, inside the call */
    struct walk_module module = {0};
    uint32_t module_index = UINT32_MAX;
    uint32_t n = 0;
    enum walk_end end;

    for (;; n++) {
        if (unlikely(n == room)) {
            end = WALK_LIMIT;
            break;
        }
        uint64_t look = pc - back;
        if (unlikely(look - module.start >= module.end - module.start)) {
            module_index = find_module(modules, look);
            module = module_index == UINT32_MAX ? (struct walk_module){0}
                                                : modules->items[module_index];
        }
        struct walk_frame *frame = &frames[n];
        frame->pc = pc;
        frame->slot = 0;
        frame->module = module_index;
        frame->flags = back ? 0 : FRAME_IS_PC;
        if (unlikely(!module.tables)) {
            end = module_index == UINT32_MAX ? WALK_NO_MODULE : WALK_NO_MAP;
            n++;
            break;
        }
        int64_t row = map_find_row(module.tables, look - module.base);
        if (unlikely(row < 0)) {
            end = WALK_NO_RULE;
            n++;
            break;
        }
        uint32_t rule = module.tables->rules[row];

        if (likely(RULE_KIND(rule) != RULE_SPECIAL)) {
            uint64_t cfa = (RULE_KIND(rule) == RULE_RSP ? sp : bp) + 8 * (uint64_t)RULE_CFA_WORDS(rule);
            unsigned rbp_slot = RULE_RBP_SLOT(rule);
            end = cfa <= sp ? WALK_NO_PROGRESS : WALK_MEMORY;
            if (unlikely(cfa <= sp || !read_word(&memory, cfa - 8, &pc) ||
                         (rbp_slot && !read_word(&memory, cfa - 8 * rbp_slot, &bp)) ||
                         (full && !restore_others(&r, rule, module.tables->saves[row], cfa,
                                                  &memory)))) {
                n++;
                break;
            }
            frame->slot = cfa - 8;
            sp = cfa;
            back = 1;
            if (!full)
                r.known = 1 << REG_RSP | 1 << REG_RBP;
            continue;
        }

        uint32_t index = RULE_SPECIAL_INDEX(rule);
        if (unlikely(index >= module.tables->special_count)) {
            end = WALK_UNKNOWN;
            n++;
            break;
        }
        const struct map_special *special = &module.tables->specials[index];
        if (special->flags & SPECIAL_GUESSED)
            frame->flags |= FRAME_GUESSED;
        if (special->cfa_kind == CFA_END) {
            end = WALK_COMPLETE;
            n++;
            break;
        }
        r.value[REG_RIP] = pc;
        r.value[REG_RSP] = sp;
        r.value[REG_RBP] = bp;
        end = step_special(special, &r, &memory, full, &frame->slot);
        if (unlikely(end != WALK_COMPLETE)) {
            n++;
            break;
        }
        if (!full && special->cfa_kind != CFA_SIGNAL)
            r.known &= 1 << REG_RSP | 1 << REG_RBP;
        pc = r.value[REG_RIP];
        sp = r.value[REG_RSP];
        bp = known(&r, REG_RBP) ? r.value[REG_RBP] : 0; /* 0 leads nowhere: no progress */
        back = special->flags & SPECIAL_EXACT_PC ? 0 : 1;
    }
    outer_memory->start = memory.start;
    outer_memory->end = memory.end;
    outer_memory->bias = memory.bias;
    return (struct walk_result){.count = n, .end = end};
}

struct walk_result walk_frames(const struct walk_modules *modules,
                               const struct walk_registers *registers, struct walk_memory *memory,
                               struct walk_frame *frames, uint32_t room)
{
    struct walk_result result = walk(modules, registers, memory, frames, room, false);
    if (unlikely(result.end == (enum walk_end)NEED_FULL))
        result = walk(modules, registers, memory, frames, room, true);
    return result;
}
