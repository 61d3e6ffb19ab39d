/*
 * The walker. Two copies of one loop are compiled: the fast one follows rsp, rbp and the pc, which
 * is all that nearly every frame needs; the full one also recovers rbx and r12 to r15. A walk
 * starts fast, and starts over in full when it meets a frame that needs one of the others (the
 * dynamic linker's lazy binder keeps its CFA in rbx, libmvec in r13).
 */
#include "unwind/walk_inside.h"

#include <string.h>

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
    [WALK_NO_PROGRESS + 1] = "unknown",
    [WALK_SWITCHED - 1] = "unknown",
    [WALK_SWITCHED] = "callers are on another stack",
};

enum {
    ALL_REGISTERS = (1 << X86_COUNT) - 1,
    OUTERMOST_RULE = SPECIAL_END << 2 | RULE_SPECIAL,
    NEED_FULL = WALK_END_COUNT, /* not an end: the fast walk cannot go on */
};

/* Registers of the frame at hand, and which of them are known. */
struct frame_registers {
    uint64_t value[X86_COUNT];
    uint32_t known;
};

__attribute__((cold)) bool walk_find_memory(struct walk_memory *m, uint64_t address)
{
    return m->find_memory && m->find_memory(m, address) && address >= m->start &&
           m->end - m->start >= 8 && address - m->start <= m->end - m->start - 8;
}

static const struct walk_module nowhere; /* holds no address, has no tables */

static bool known(const struct frame_registers *r, unsigned reg)
{
    return reg < X86_COUNT && (r->known >> reg & 1);
}

static bool read_place(const struct map_place *place, const struct frame_registers *old,
                       uint64_t cfa, struct walk_memory *memory, uint64_t *value)
{
    switch (place->kind) {
    case PLACE_CFA:
        return walk_read_word(memory, cfa + (uint64_t)(int64_t)place->offset, value);
    case PLACE_MEMORY:
        return known(old, place->reg) &&
               walk_read_word(memory, old->value[place->reg] + (uint64_t)(int64_t)place->offset,
                              value);
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
        if (!known(r, s->reg))
            return missing(s->reg, full);
        *cfa = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        return WALK_COMPLETE;
    case CFA_DEREF: {
        if (!known(r, s->reg))
            return missing(s->reg, full);
        uint64_t address = r->value[s->reg] + (uint64_t)(int64_t)s->offset;
        if (s->index_reg != X86_NONE) {
            if (!known(r, s->index_reg))
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

/*
 * A step by a special rule. On return `r` holds the caller's registers. WALK_COMPLETE means that
 * the step was made (the outermost frame is found before); anything else ends the walk.
 */
static __attribute__((noinline)) enum walk_end step_special(const struct map_special *s,
                                                            struct frame_registers *r,
                                                            struct walk_memory *memory, bool full,
                                                            uint64_t *slot)
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
            if (reg == X86_RBP && place->reg < X86_COUNT && !known(r, place->reg) &&
                missing(place->reg, full) == (enum walk_end)NEED_FULL)
                return (enum walk_end)NEED_FULL;
        }
    }
    const struct map_place *ra = &s->place[AT_RIP];
    if (!known(&caller, X86_RIP))
        return ra->kind == PLACE_CFA || ra->kind == PLACE_MEMORY ? WALK_MEMORY
                                                                 : missing(ra->reg, full);
    if (s->place[AT_RSP].kind == PLACE_SAME)
        caller.value[X86_RSP] = cfa;
    else if (!known(&caller, X86_RSP))
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

static inline bool restore(struct frame_registers *r, unsigned reg, unsigned slot, uint64_t cfa,
                           struct walk_memory *memory)
{
    if (!slot || cfa - 8 * slot < memory->restored_below)
        return true;
    r->known |= 1u << reg;
    return walk_read_word(memory, cfa - 8 * slot, &r->value[reg]);
}

/* The registers that only the full walk follows. */
static bool restore_others(struct frame_registers *r, uint32_t rule, unsigned saves, uint64_t cfa,
                           struct walk_memory *memory)
{
    return restore(r, X86_RBX, RULE_RBX_SLOT(rule), cfa, memory) &&
           restore(r, X86_R12, SAVES_SLOT(saves, X86_R12), cfa, memory) &&
           restore(r, X86_R13, SAVES_SLOT(saves, X86_R13), cfa, memory) &&
           restore(r, X86_R14, SAVES_SLOT(saves, X86_R14), cfa, memory) &&
           restore(r, X86_R15, SAVES_SLOT(saves, X86_R15), cfa, memory);
}

/*
 * The cached part of a walk.
 *
 * What makes walking slow is not work but waiting: the return address must be loaded before its
 * rule can be looked up, and the rule is needed to know where the next return address is. Here each
 * entry remembers which entry came above it the last time. The loop goes on with that one at once,
 * and the return address that it loads only confirms the guess, which the processor does not wait
 * for.
 */
enum entry_flags { FROM_RBP = 1 << 24, SAVES_RBP = 2 << 24, OUTERMOST = 4 << 24 };
enum { MOST_BACK = RULE_MAX_SLOT * 8 };

static_assert(RULE_MAX_CFA_WORDS * 8 < FROM_RBP, "a distance and the flags share a word");
static_assert(offsetof(struct walk_frame, flags) == offsetof(struct walk_frame, module) + 4 &&
                  offsetof(struct walk_cache_entry, frame_flags) ==
                      offsetof(struct walk_cache_entry, module) + 4,
              "walk_known copies module and flags together");

/* The low bits of return addresses are as good as random, and cost one instruction. */
static inline struct walk_cache_entry *entry_for(struct walk_cache *cache, uint64_t pc)
{
    return &cache->entries[pc % WALK_CACHE_ENTRIES];
}

static_assert(sizeof(struct walk_cache_entry) == 32, "indexing must be a shift, not a product");

/* Whatever does not count from rsp counts from rbp, as in walk(), in a damaged map too. */
static void remember(struct walk_cache *cache, uint64_t pc, uint32_t rule, uint32_t module)
{
    uint32_t cfa_bytes = RULE_CFA_WORDS(rule) * 8, slot = RULE_RBP_SLOT(rule);
    uint32_t flags = (RULE_KIND(rule) == RULE_RSP ? 0u : FROM_RBP) | (slot ? SAVES_RBP : 0u);
    struct walk_cache_entry *e = entry_for(cache, pc);
    *e = (struct walk_cache_entry){.pc = pc,
                                   .next = e,
                                   .cfa_and_flags = cfa_bytes | flags,
                                   .saved_rbp_bytes = (int32_t)cfa_bytes - (int32_t)slot * 8,
                                   .module = module};
}

static void remember_end(struct walk_cache *cache, uint64_t pc, uint32_t module)
{
    struct walk_cache_entry *e = entry_for(cache, pc);
    *e = (struct walk_cache_entry){
        .pc = pc, .next = e, .cfa_and_flags = OUTERMOST, .module = module};
}

/*
 * Keeps the compiler from computing both sides of an `if` and choosing: that would make the walk
 * wait for the entry, where a branch lets the processor go ahead.
 */
#define AS_BRANCH(variable) __asm__("" : "+r"(variable))

/*
 * Walks on from a return address for as long as the cache knows the way; `at` says how far.
 * Whatever is unusual (an unknown address, a special rule, memory out of bounds) is left to the
 * caller. Not inlined: the loop needs all the registers that there are.
 */
static __attribute__((noinline)) uint32_t
walk_known(struct walk_cache *cache, const struct walk_memory *memory, struct walk_position *at,
           uint64_t until, struct walk_frame *frames, uint32_t n, uint32_t room)
{
    const uint64_t end = memory->end, bias = memory->bias;
    uint64_t pc = at->pc, sp = at->sp, bp = at->bp;
    struct walk_cache_entry *e = entry_for(cache, pc);
    /*
     * With the room below, saved registers (at most MOST_BACK below a CFA that is above rsp) cannot
     * lie outside the memory, and the upper end is all that the loop has to watch.
     */
    if (e->pc != pc || sp < memory->start || sp - memory->start < MOST_BACK || sp >= end)
        return n;
    struct walk_frame *frame = frames + n, *const full = frames + room;
    while (frame < full && sp < until) {
        const uint32_t rule = e->cfa_and_flags;
        uint64_t base = sp, ra;
        if (rule & FROM_RBP) {
            base = bp;
            AS_BRANCH(base);
        }
        uint64_t cfa = base + rule % FROM_RBP;
        if (unlikely(cfa <= sp || cfa > end)) {
            if (rule & OUTERMOST) {
                *frame++ = (struct walk_frame){.pc = pc,
                                               .rbp = bp,
                                               .module = e->module,
                                               .flags = e->frame_flags | FRAME_SPECIAL};
                at->ended = true;
            }
            break;
        }
        frame->pc = pc;
        frame->slot = cfa - 8;
        frame->rbp = bp;
        if (rule & SAVES_RBP) {
            uint64_t saved = base + (uint64_t)(int64_t)e->saved_rbp_bytes;
            memcpy(&bp, (const void *)(uintptr_t)(saved + bias), sizeof bp);
        }
        memcpy(&ra, (const void *)(uintptr_t)(cfa - 8 + bias), sizeof ra);
        memcpy(&frame->module, &e->module, 8);
        frame++;
        sp = cfa;
        pc = ra;
        struct walk_cache_entry *guess = e->next;
        if (unlikely(guess->pc != ra)) {
            guess = entry_for(cache, ra);
            if (guess->pc != ra)
                break;
            e->next = guess;
        }
        e = guess;
    }
    at->pc = pc;
    at->sp = sp;
    at->bp = bp;
    return (uint32_t)(frame - frames);
}

static bool holds(const struct walk_memory *memory, uint64_t address, uint64_t value)
{
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)(address + memory->bias), sizeof word);
    return word == value;
}

/* Does a slot that is not what it was have a mark now, which stands for that? */
static __attribute__((noinline, cold)) bool is_marked(const struct walk_memory *memory,
                                                      uint64_t slot, uint64_t value)
{
    struct walk_marks *marks = memory->marks;
    uint64_t word;
    memcpy(&word, (const void *)(uintptr_t)(slot + memory->bias), sizeof word);
    return marks && marks->join && word >= marks->start && word < marks->end &&
           marks->real(marks, word, slot) == value;
}

/*
 * Are the frames [0, count) of the past still there? The words that led from each to the next must
 * be what they were. Nothing here waits for anything: the addresses are all known beforehand.
 */
static bool past_is_unchanged(const struct walk_past_frame *frames, uint32_t count,
                              const struct walk_memory *memory, uint64_t sp)
{
    /* The slots go up, and saved registers are less than MOST_BACK below a slot above rsp. */
    if (sp < memory->start || sp - memory->start < MOST_BACK || memory->end - 8 < frames[1].slot)
        return false;
    for (uint32_t i = count - 1; i > 0; i--) {
        const struct walk_past_frame *f = &frames[i];
        if (unlikely(!holds(memory, f->slot, f[-1].pc)) && !is_marked(memory, f->slot, f[-1].pc))
            return false;
        if (f->rbp_slot && unlikely(!holds(memory, f->rbp_slot, f[-1].rbp)))
            return false;
    }
    return true;
}

/*
 * Does the walk, at a return address now, join the past here? It does where it stands at the caller
 * of a frame of the past, with the same registers, and all above is unchanged. Sets where to look
 * next.
 */
static bool joins(struct walk_past *past, const struct walk_position *at,
                  const struct walk_memory *memory)
{
    const struct walk_past_frame *frames = past->frames;
    uint32_t i = past->look;
    while (i > 0 && frames[i].slot + 8 < at->sp)
        i--;
    if (i > 1 && frames[i].slot + 8 == at->sp) {
        if (frames[i - 1].pc == at->pc && frames[i - 1].rbp == at->bp) {
            if (past_is_unchanged(frames, i, memory, at->sp)) {
                past->kept = i;
                return true;
            }
            i = 0; /* changed further up: walk all of it */
        } else {
            i--;
        }
    }
    past->look = i;
    past->until = i > 1 ? frames[i].slot + 8 : UINT64_MAX;
    return false;
}

/* Goes on from a mark to what it stands for; false where only the tables can tell. */
static __attribute__((noinline, cold)) bool pass_mark(const struct walk_memory *memory,
                                                      struct walk_position *at, bool is_return)
{
    if (!is_return)
        return memory->marks->leave(memory->marks, memory, &at->pc, &at->sp);
    uint64_t real = memory->marks->real(memory->marks, at->pc, at->sp - 8);
    if (real)
        at->pc = real;
    return real != 0;
}

/* What a signal has interrupted may be code that stands for the program's. True: it was. */
static __attribute__((noinline, cold)) bool
leave_code(struct walk_memory *memory, struct frame_registers *r, struct walk_position *at)
{
    struct walk_registers all;
    memcpy(all.value, r->value, sizeof all.value);
    if (!memory->leave_code(&all, &memory->restored_below))
        return false;
    bool has_left = all.value[X86_RIP] != at->pc;
    memcpy(r->value, all.value, sizeof all.value);
    at->pc = r->value[X86_RIP];
    at->sp = r->value[X86_RSP];
    return has_left;
}

/*
 * The same for what that code has called: the program's stack may have come to its end there, and
 * the handler of that is walked.
 */
static bool leave_calling_code(struct walk_memory *memory, struct frame_registers *r,
                               struct walk_position *at)
{
    uint64_t word;
    if (!memory->leave_code || !walk_read_word(memory, at->sp, &word))
        return false;
    r->value[X86_RIP] = at->pc;
    r->value[X86_RSP] = at->sp;
    r->value[X86_RBP] = at->bp;
    return leave_code(memory, r, at);
}

/* Does the function at this place write to the slots of return addresses, as unwinders do? */
static bool writes_slots(const struct walk_module *module, uint64_t pc)
{
    const struct map_range *range =
        module->tables ? map_find_unmarkable(module->tables, pc - module->base) : NULL;
    return range && range->value;
}

/*
 * An unwinder that is about to land writes the address of the landing pad into the slot of the
 * frame that it leaves, and returns there: a return address that is not behind a call. What is
 * right one byte before belongs to other code.
 */
static __attribute__((noinline, cold)) bool is_landing_pad(const struct walk_memory *memory,
                                                           uint64_t pc)
{
    struct walk_memory code = *memory;
    uint64_t bytes;
    return walk_read_word(&code, pc - 8, &bytes) && !walk_ends_in_call(bytes);
}

static inline __attribute__((always_inline)) struct walk_result
walk(struct walk_past *past, struct walk_cache *cache, const struct walk_modules *modules,
     const struct walk_registers *registers, struct walk_memory *outer_memory,
     struct walk_frame *frames, uint32_t room, const bool full)
{
    struct walk_memory memory = *outer_memory;
    struct frame_registers r; /* in the fast walk only up to date where r.known says so */
    bool at_start = !full;    /* all registers are still those of the caller's structure */
    r.known = ALL_REGISTERS;
    if (full)
        memcpy(r.value, registers->value, sizeof r.value);

    struct walk_position at = {.pc = registers->value[X86_RIP],
                               .sp = registers->value[X86_RSP],
                               .bp = registers->value[X86_RBP]};
    uint64_t back = 0; /* a return address is looked up one byte before, inside the call */
    bool is_pc = true;
    const uint64_t marks = memory.marks ? memory.marks->start : 0;
    const uint64_t mark_bytes = memory.marks ? memory.marks->end - marks : 0;
    uint64_t unknown_mark = 0;
    bool may_land = false;
    struct walk_module module = nowhere;
    uint32_t module_index = UINT32_MAX;
    uint32_t n = 0;
    enum walk_end end;

    for (;;) {
        if (unlikely(at.pc - marks < mark_bytes) && at.pc != unknown_mark) {
            if (past && back && at.pc == past->mark && at.sp - 8 == past->mark_slot) {
                past->kept = past->mark_frame;
                end = WALK_COMPLETE;
                break;
            }
            if (!pass_mark(&memory, &at, back))
                unknown_mark = at.pc;
        }
        if (past && back && at.sp >= past->until && joins(past, &at, &memory)) {
            end = WALK_COMPLETE;
            break;
        }
        if (unlikely(may_land) && back && is_landing_pad(&memory, at.pc))
            back = 0;
        if (cache && back) {
            uint32_t before = n;
            n = walk_known(cache, &memory, &at, past ? past->until : UINT64_MAX, frames, n, room);
            if (n != before) {
                r.known = 1 << X86_RSP | 1 << X86_RBP;
                at_start = false;
            }
            if (!at.ended && ((past && at.sp >= past->until) ||
                              (at.pc - marks < mark_bytes && at.pc != unknown_mark)))
                continue;
        }
        if (at.ended) {
            end = WALK_COMPLETE;
            break;
        }
        if (unlikely(n == room)) {
            end = WALK_LIMIT;
            break;
        }
        uint64_t look = at.pc - back;
        if (unlikely(look - module.start >= module.end - module.start)) {
            module_index = walk_find_module(modules, look);
            module = module_index == UINT32_MAX ? nowhere : modules->items[module_index];
        }
        if (is_pc && unlikely(writes_slots(&module, look))) {
            may_land = true;
            cache = NULL; /* it takes every return address for one */
        }
        struct walk_frame *frame = &frames[n++];
        *frame = (struct walk_frame){
            .pc = at.pc, .rbp = at.bp, .module = module_index, .flags = is_pc ? FRAME_IS_PC : 0};
        int64_t row =
            likely(module.tables) ? map_find_row(module.tables, look - module.base) : NO_ROW;
        if (unlikely(row < 0)) {
            end = module.tables                ? WALK_NO_RULE
                  : module_index == UINT32_MAX ? WALK_NO_MODULE
                                               : WALK_NO_MAP;
            if (at.pc == 0 && n > 1 && walk_ends_at_zero(&memory, &at, frames, n - 1)) {
                n--;
                end = WALK_COMPLETE;
                break;
            }
            if (module_index == UINT32_MAX && back && leave_calling_code(&memory, &r, &at)) {
                n--;
                back = 0;
                is_pc = true;
                continue;
            }
        unknown:
            if (!walk_step_unknown(modules, &memory, &at, is_pc, &frame->slot))
                break;
            frame->flags |= FRAME_SPECIAL | FRAME_GUESSED | FRAME_UNKNOWN;
            r.known = 1 << X86_RSP | 1 << X86_RBP;
            at_start = false;
            back = 1;
            is_pc = false;
            continue;
        }
        uint32_t rule = module.tables->rows[row].rule;
        const struct map_range *correction = map_find_correction(module.tables, look - module.base);
        if (unlikely(correction) &&
            ((is_pc && !memory.without_corrections) || correction->value == OUTERMOST_RULE))
            rule = correction->value;

        if (likely(RULE_KIND(rule) != RULE_SPECIAL)) {
            uint64_t cfa =
                (RULE_KIND(rule) == RULE_RSP ? at.sp : at.bp) + 8 * (uint64_t)RULE_CFA_WORDS(rule);
            unsigned rbp_slot = RULE_RBP_SLOT(rule);
            uint64_t pc = at.pc;
            end = cfa <= at.sp ? WALK_NO_PROGRESS : WALK_MEMORY;
            if (unlikely(
                    cfa <= at.sp || !walk_read_word(&memory, cfa - 8, &at.pc) ||
                    (rbp_slot && cfa - 8 * rbp_slot >= memory.restored_below &&
                     !walk_read_word(&memory, cfa - 8 * rbp_slot, &at.bp)) ||
                    (full && !restore_others(&r, rule, module.tables->saves[row], cfa, &memory))))
                break;
            if (cache && back)
                remember(cache, pc, rule, module_index);
            frame->slot = cfa - 8;
            at.sp = cfa;
            back = 1;
            is_pc = false;
            if (!full)
                r.known = 1 << X86_RSP | 1 << X86_RBP;
            else if (rbp_slot)
                r.known |= 1 << X86_RBP;
            at_start = false;
            continue;
        }

        uint32_t index = RULE_SPECIAL_INDEX(rule);
        if (unlikely(index >= module.tables->special_count)) {
            end = WALK_UNKNOWN;
            break;
        }
        const struct map_special *special = &module.tables->specials[index];
        frame->flags |= FRAME_SPECIAL | (special->flags & SPECIAL_GUESSED ? FRAME_GUESSED : 0);
        if (unlikely(special->cfa_kind == CFA_NONE)) {
            end = WALK_NO_RULE;
            goto unknown;
        }
        if (special->cfa_kind == CFA_END) {
            if (cache && back)
                remember_end(cache, at.pc, module_index);
            end = WALK_COMPLETE;
            break;
        }
        if (at_start)
            memcpy(r.value, registers->value, sizeof r.value);
        at_start = false;
        r.value[X86_RIP] = at.pc;
        r.value[X86_RSP] = at.sp;
        r.value[X86_RBP] = at.bp;
        end = step_special(special, &r, &memory, full, &frame->slot);
        if (unlikely(end != WALK_COMPLETE))
            break;
        if (!full && special->cfa_kind != CFA_SIGNAL)
            r.known &= 1 << X86_RSP | 1 << X86_RBP;
        at.pc = r.value[X86_RIP];
        at.sp = r.value[X86_RSP];
        at.bp = known(&r, X86_RBP) ? r.value[X86_RBP] : 0; /* 0 leads nowhere: no progress */
        is_pc = special->flags & SPECIAL_EXACT_PC;
        if (special->cfa_kind == CFA_SIGNAL && memory.leave_code)
            leave_code(&memory, &r, &at);
        /* A return address that is still in a register may be where an unwinder is about to land,
           which is not behind a call. */
        back = is_pc || special->place[AT_RIP].kind == PLACE_REG ? 0 : 1;
    }
    outer_memory->start = memory.start;
    outer_memory->end = memory.end;
    outer_memory->bias = memory.bias;
    return (struct walk_result){.count = n, .end = end};
}

static __attribute__((noinline)) struct walk_result
walk_in_full(struct walk_past *past, const struct walk_modules *modules,
             const struct walk_registers *registers, struct walk_memory *memory,
             struct walk_frame *frames, uint32_t room)
{
    return walk(past, NULL, modules, registers, memory, frames, room, true);
}

struct walk_result walk_frames(const struct walk_modules *modules,
                               const struct walk_registers *registers, struct walk_memory *memory,
                               struct walk_frame *frames, uint32_t room)
{
    struct walk_result result = walk(NULL, NULL, modules, registers, memory, frames, room, false);
    if (unlikely(result.end == (enum walk_end)NEED_FULL))
        result = walk_in_full(NULL, modules, registers, memory, frames, room);
    return result;
}

static void forget_other_modules(struct walk_cache *cache, const struct walk_modules *modules)
{
    if (likely(cache->generation == modules->generation))
        return;
    for (unsigned i = 0; i < WALK_CACHE_ENTRIES; i++)
        cache->entries[i].pc = 0;
    cache->generation = modules->generation;
}

struct walk_result walk_frames_cached(struct walk_cache *cache, const struct walk_modules *modules,
                                      const struct walk_registers *registers,
                                      struct walk_memory *memory, struct walk_frame *frames,
                                      uint32_t room)
{
    forget_other_modules(cache, modules);
    struct walk_result result = walk(NULL, cache, modules, registers, memory, frames, room, false);
    if (unlikely(result.end == (enum walk_end)NEED_FULL))
        result = walk_in_full(NULL, modules, registers, memory, frames, room);
    return result;
}

struct walk_result walk_frames_joining(struct walk_past *past, struct walk_cache *cache,
                                       const struct walk_modules *modules,
                                       const struct walk_registers *registers,
                                       struct walk_memory *memory, struct walk_frame *frames,
                                       uint32_t room)
{
    if (cache->generation != modules->generation) {
        past->count = 0; /* what is at those addresses now is another matter */
        past->mark = 0;
    }
    forget_other_modules(cache, modules);
    past->kept = 0;
    past->look = past->count ? past->count - 1 : 0;
    past->until = past->count > 2 && !past->mark ? registers->value[X86_RSP] : UINT64_MAX;
    struct walk_result result = walk(past, cache, modules, registers, memory, frames, room, false);
    if (unlikely(result.end == (enum walk_end)NEED_FULL)) {
        past->kept = 0;
        past->until = UINT64_MAX; /* what a full walk needs is more than the past has words for */
        result = walk_in_full(past, modules, registers, memory, frames, room);
    }
    return result;
}

void walk_cache_note(struct walk_cache *cache, uint64_t pc, uint32_t frame_flags)
{
    struct walk_cache_entry *e = entry_for(cache, pc);
    if (e->pc == pc)
        e->frame_flags |= frame_flags;
}

uint64_t walk_rbp_slot(struct walk_cache *cache, const struct walk_modules *modules,
                       const struct walk_frame *frame)
{
    const struct walk_cache_entry *e = entry_for(cache, frame->pc);
    if (e->pc == frame->pc && !(frame->flags & FRAME_IS_PC)) {
        uint64_t cfa = frame->slot + 8, base = cfa - e->cfa_and_flags % FROM_RBP;
        return e->cfa_and_flags & SAVES_RBP ? base + (uint64_t)(int64_t)e->saved_rbp_bytes : 0;
    }
    uint64_t look = frame->pc - (frame->flags & FRAME_IS_PC ? 0 : 1);
    const struct walk_module *module = &modules->items[frame->module];
    int64_t row = map_find_row(module->tables, look - module->base);
    unsigned slot = row < 0 ? 0 : RULE_RBP_SLOT(module->tables->rows[row].rule);
    return slot ? frame->slot + 8 - 8 * slot : 0;
}
