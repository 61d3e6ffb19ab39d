/*
 * The walker. Two copies of one loop are compiled: the fast one follows rsp, rbp and the pc, which
 * is all that nearly every frame needs; the full one also recovers rbx and r12 to r15. A walk
 * starts fast, and starts over in full when it meets a frame that needs one of the others (the
 * dynamic linker's lazy binder keeps its CFA in rbx, libmvec in r13), or an unwinder that was
 * interrupted.
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

enum { OUTERMOST_RULE = SPECIAL_END << 2 | RULE_SPECIAL };

__attribute__((cold)) bool walk_find_memory(struct walk_memory *m, uint64_t address)
{
    return m->find_memory && m->find_memory(m, address) && address >= m->start &&
           m->end - m->start >= 8 && address - m->start <= m->end - m->start - 8;
}

static const struct walk_module nowhere; /* holds no address, has no tables */

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

/* What a signal has interrupted may be code that stands for the program's. */
static __attribute__((noinline, cold)) enum walk_left
leave_code(struct walk_memory *memory, struct frame_registers *r, struct walk_position *at)
{
    struct walk_registers all;
    memcpy(all.value, r->value, sizeof all.value);
    enum walk_left left = memory->leave_code(&all, &memory->restored_below);
    if (!left)
        return WALK_NOT_LEFT;
    bool has_left = all.value[X86_RIP] != at->pc;
    memcpy(r->value, all.value, sizeof all.value);
    at->pc = r->value[X86_RIP];
    at->sp = r->value[X86_RSP];
    return has_left ? left : WALK_NOT_LEFT;
}

/* Does the function at this place write to the slots of return addresses, as unwinders do? */
static __attribute__((noinline)) bool writes_slots(const struct map_tables *tables, uint64_t offset)
{
    const struct map_range *range = map_find_unmarkable(tables, offset);
    return range && range->value;
}

/*
 * An unwinder that is about to land writes the address of the landing pad into the slot of the
 * frame that it leaves, and returns there: a return address that is not behind a call. What is
 * right one byte before belongs to other code. (A call that has become a jump leads out of all
 * modules, to code that stands for it.)
 */
static __attribute__((noinline, cold)) bool
is_landing_pad(const struct walk_memory *memory, const struct walk_modules *modules, uint64_t pc)
{
    enum { JUMP = 0xe9 };
    struct walk_memory code = *memory;
    uint64_t bytes;
    if (!walk_read_word(&code, pc - 8, &bytes) || walk_ends_in_call(bytes))
        return false;
    const uint64_t target = pc + (uint64_t)(int64_t)(int32_t)(bytes >> 32);
    return !memory->leave_code || (bytes >> 24 & 0xff) != JUMP ||
           walk_find_module(modules, target) != UINT32_MAX;
}

/*
 * What the steps of a walk change. Position, memory and registers are apart from this, since their
 * addresses are given to functions: what is here stays in the processor's registers.
 */
struct progress {
    bool at_start;       /* all registers are still those of the caller's structure */
    bool is_pc;          /* the frame was interrupted: its pc is not a return address */
    bool may_land;       /* an unwinder was interrupted: return addresses may be landing pads */
    bool is_behind_call; /* this one is none */
    uint64_t back;       /* a return address is looked up one byte before, inside the call */
    uint32_t count;
};

/*
 * The same for what that code has called: the program's functions, if that comes back to it; or
 * what was at work when the program's stack came to its end, and the handler of that is walked.
 */
static bool leave_calling_code(struct walk_memory *memory, struct frame_registers *r,
                               struct walk_position *at, struct progress *p)
{
    uint64_t word;
    if (!memory->leave_code || !walk_read_word(memory, at->sp, &word))
        return false;
    r->value[X86_RIP] = at->pc;
    r->value[X86_RSP] = at->sp;
    r->value[X86_RBP] = at->bp;
    const enum walk_left left = leave_code(memory, r, at);
    if (!left)
        return false;
    p->is_pc = left == WALK_LEFT;
    p->is_behind_call = !p->is_pc;
    p->back = p->is_behind_call;
    return true;
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))

enum { JUST_RSP_AND_RBP = 1 << X86_RSP | 1 << X86_RBP };

/* The range of a thread's marks, none for those without. */
struct mark_range {
    uint64_t start, bytes;
    uint64_t unknown; /* the last that stood for nothing: the tables are asked about it */
};

ALWAYS_INLINE bool is_mark(const struct mark_range *marks, uint64_t pc)
{
    return unlikely(pc - marks->start < marks->bytes) && pc != marks->unknown;
}

/*
 * Goes as far as marks, an earlier walk and the cache know the way. True: the walk is complete.
 * Otherwise the tables have to say what comes next.
 */
ALWAYS_INLINE bool walk_ahead(struct walk_past *past, struct walk_cache *cache,
                              struct walk_memory *memory, struct walk_position *at,
                              struct frame_registers *r, struct mark_range *marks,
                              struct progress *p, struct walk_frame *frames, uint32_t room,
                              const struct walk_modules *modules, const bool full)
{
    for (;;) {
        if (is_mark(marks, at->pc)) {
            if (past && p->back && at->pc == past->mark && at->sp - 8 == past->mark_slot) {
                past->kept = past->mark_frame;
                return true;
            }
            if (!pass_mark(memory, at, p->back))
                marks->unknown = at->pc;
        }
        if (past && p->back && at->sp >= past->until && walk_joins(past, at, memory))
            return true;
        if (full && p->may_land && p->back && !p->is_behind_call &&
            is_landing_pad(memory, modules, at->pc))
            p->back = 0;
        if (!cache || !p->back)
            return false;
        uint32_t before = p->count;
        uint64_t until = past ? past->until : UINT64_MAX;
        p->count = walk_known(cache, memory, at, until, frames, p->count, room);
        if (p->count != before) {
            r->known = JUST_RSP_AND_RBP;
            p->at_start = false;
        }
        if (at->ended)
            return true;
        if (!(past && at->sp >= past->until) && !is_mark(marks, at->pc))
            return false;
    }
}

/* A step by a rule that counts from rsp or rbp, as nearly all do. */
ALWAYS_INLINE enum walk_end step_direct(uint32_t rule, const struct map_tables *tables, int64_t row,
                                        struct walk_memory *memory, struct walk_position *at,
                                        struct frame_registers *r, struct progress *p,
                                        uint64_t *slot, const bool full)
{
    uint64_t cfa =
        (RULE_KIND(rule) == RULE_RSP ? at->sp : at->bp) + 8 * (uint64_t)RULE_CFA_WORDS(rule);
    unsigned rbp_slot = RULE_RBP_SLOT(rule);
    if (unlikely(cfa <= at->sp))
        return WALK_NO_PROGRESS;
    if (unlikely(!walk_read_word(memory, cfa - 8, &at->pc) ||
                 (rbp_slot && cfa - 8 * rbp_slot >= memory->restored_below &&
                  !walk_read_word(memory, cfa - 8 * rbp_slot, &at->bp)) ||
                 (full && !restore_others(r, rule, tables->saves[row], cfa, memory))))
        return WALK_MEMORY;
    *slot = cfa - 8;
    at->sp = cfa;
    p->back = 1;
    p->is_pc = false;
    p->at_start = false;
    if (!full)
        r->known = JUST_RSP_AND_RBP;
    else if (rbp_slot)
        r->known |= 1 << X86_RBP;
    return WALK_COMPLETE;
}

/* A step out of code without unwind information. */
ALWAYS_INLINE bool step_unknown(const struct walk_modules *modules, struct walk_memory *memory,
                                struct walk_position *at, struct frame_registers *r,
                                struct progress *p, struct walk_frame *frame)
{
    if (!walk_step_unknown(modules, memory, at, p->is_pc, &frame->slot))
        return false;
    frame->flags |= FRAME_SPECIAL | FRAME_GUESSED | FRAME_UNKNOWN;
    r->known = JUST_RSP_AND_RBP;
    p->at_start = false;
    p->back = 1;
    p->is_pc = false;
    return true;
}

ALWAYS_INLINE enum walk_end step_special(const struct map_special *special,
                                         const struct walk_modules *modules,
                                         const struct walk_registers *registers,
                                         struct walk_memory *memory, struct walk_position *at,
                                         struct frame_registers *r, struct progress *p,
                                         struct walk_frame *frame, const bool full)
{
    if (unlikely(special->cfa_kind == CFA_NONE))
        return step_unknown(modules, memory, at, r, p, frame) ? WALK_COMPLETE : WALK_NO_RULE;
    if (p->at_start)
        memcpy(r->value, registers->value, sizeof r->value);
    p->at_start = false;
    r->value[X86_RIP] = at->pc;
    r->value[X86_RSP] = at->sp;
    r->value[X86_RBP] = at->bp;
    enum walk_end end = walk_step_special(special, r, memory, full, &frame->slot);
    if (unlikely(end != WALK_COMPLETE))
        return end;
    if (!full && special->cfa_kind != CFA_SIGNAL)
        r->known &= JUST_RSP_AND_RBP;
    at->pc = r->value[X86_RIP];
    at->sp = r->value[X86_RSP];
    at->bp = is_known(r, X86_RBP) ? r->value[X86_RBP] : 0; /* 0 leads nowhere: no progress */
    p->is_pc = special->flags & SPECIAL_EXACT_PC;
    if (special->cfa_kind == CFA_SIGNAL && memory->leave_code)
        leave_code(memory, r, at);
    /* A return address that is still in a register may be where an unwinder is about to land,
       which is not behind a call. */
    p->back = p->is_pc || special->place[AT_RIP].kind == PLACE_REG ? 0 : 1;
    return WALK_COMPLETE;
}

/* The rule of a row, or what a correction says instead. */
ALWAYS_INLINE uint32_t rule_of(const struct map_tables *tables, int64_t row, uint64_t offset,
                               bool is_pc, bool without_corrections)
{
    uint32_t rule = tables->rows[row].rule;
    const struct map_range *correction = map_find_correction(tables, offset);
    if (unlikely(correction) &&
        ((is_pc && !without_corrections) || correction->value == OUTERMOST_RULE))
        rule = correction->value;
    return rule;
}

/* Why there is no row. */
static enum walk_end no_row(const struct map_tables *tables, uint32_t index)
{
    return tables ? WALK_NO_RULE : index == UINT32_MAX ? WALK_NO_MODULE : WALK_NO_MAP;
}

ALWAYS_INLINE struct mark_range range_of(const struct walk_marks *marks)
{
    return marks ? (struct mark_range){marks->start, marks->end - marks->start}
                 : (struct mark_range){0};
}

ALWAYS_INLINE struct walk_result walk(struct walk_past *past, struct walk_cache *cache,
                                      const struct walk_modules *modules,
                                      const struct walk_registers *registers,
                                      struct walk_memory *outer_memory, struct walk_frame *frames,
                                      uint32_t room, const bool full)
{
    struct walk_memory memory = *outer_memory;
    struct frame_registers r; /* in the fast walk only up to date where r.known says so */
    struct progress p = {.at_start = !full, .is_pc = true};
    struct mark_range marks = range_of(memory.marks);
    struct walk_position at = {.pc = registers->value[X86_RIP],
                               .sp = registers->value[X86_RSP],
                               .bp = registers->value[X86_RBP]};
    struct walk_module module = nowhere;
    uint32_t module_index = UINT32_MAX;
    enum walk_end end = WALK_COMPLETE;
    r.known = ALL_REGISTERS;
    if (full)
        memcpy(r.value, registers->value, sizeof r.value);
    while (!walk_ahead(past, cache, &memory, &at, &r, &marks, &p, frames, room, modules, full)) {
        if (unlikely(p.count == room)) {
            end = WALK_LIMIT;
            break;
        }
        uint64_t look = at.pc - p.back;
        p.is_behind_call = false;
        if (unlikely(look - module.start >= module.end - module.start)) {
            module_index = walk_find_module(modules, look);
            module = module_index == UINT32_MAX ? nowhere : modules->items[module_index];
        }
        struct walk_frame *frame = &frames[p.count++];
        *frame = (struct walk_frame){
            .pc = at.pc, .rbp = at.bp, .module = module_index, .flags = p.is_pc ? FRAME_IS_PC : 0};
        int64_t row =
            likely(module.tables) ? map_find_row(module.tables, look - module.base) : NO_ROW;
        if (unlikely(row < 0)) {
            if (at.pc == 0 && p.count > 1 && walk_ends_at_zero(&memory, &at, frames, p.count - 1)) {
                p.count--;
                break;
            }
            if (module_index == UINT32_MAX && p.back && leave_calling_code(&memory, &r, &at, &p)) {
                p.count--;
                continue;
            }
            if (step_unknown(modules, &memory, &at, &r, &p, frame))
                continue;
            end = no_row(module.tables, module_index);
            break;
        }
        p.may_land |= p.is_pc && unlikely(writes_slots(module.tables, look - module.base));
        if (!full && p.may_land) {
            end = (enum walk_end)NEED_FULL;
            break;
        }
        uint32_t rule =
            rule_of(module.tables, row, look - module.base, p.is_pc, memory.without_corrections);
        if (likely(RULE_KIND(rule) != RULE_SPECIAL)) {
            const bool is_return = p.back;
            end = step_direct(rule, module.tables, row, &memory, &at, &r, &p, &frame->slot, full);
            if (unlikely(end != WALK_COMPLETE))
                break;
            if (cache && is_return)
                walk_remember(cache, frame->pc, rule, module_index);
            continue;
        }
        uint32_t index = RULE_SPECIAL_INDEX(rule);
        if (unlikely(index >= module.tables->special_count)) {
            end = WALK_UNKNOWN;
            break;
        }
        const struct map_special *special = &module.tables->specials[index];
        frame->flags |= FRAME_SPECIAL | (special->flags & SPECIAL_GUESSED ? FRAME_GUESSED : 0);
        if (special->cfa_kind == CFA_END) {
            if (cache && p.back)
                walk_remember_end(cache, at.pc, module_index);
            break;
        }
        end = step_special(special, modules, registers, &memory, &at, &r, &p, frame, full);
        if (unlikely(end != WALK_COMPLETE))
            break;
    }
    outer_memory->start = memory.start;
    outer_memory->end = memory.end;
    outer_memory->bias = memory.bias;
    return (struct walk_result){.count = p.count, .end = end};
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
