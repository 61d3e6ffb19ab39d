/*
 * The cached part of a walk.
 *
 * What makes walking slow is not work but waiting: the return address must be loaded before its
 * rule can be looked up, and the rule is needed to know where the next return address is. Here each
 * entry remembers which entry came above it the last time. The loop goes on with that one at once,
 * and the return address that it loads only confirms the guess, which the processor does not wait
 * for.
 */
#include "unwind/walk_inside.h"

enum entry_flags { FROM_RBP = 1 << 24, SAVES_RBP = 2 << 24, OUTERMOST = 4 << 24 };

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
void walk_remember(struct walk_cache *cache, uint64_t pc, uint32_t rule, uint32_t module)
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

void walk_remember_end(struct walk_cache *cache, uint64_t pc, uint32_t module)
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

uint32_t walk_known(struct walk_cache *cache, const struct walk_memory *memory,
                    struct walk_position *at, uint64_t until, struct walk_frame *frames, uint32_t n,
                    uint32_t room)
{
    const uint64_t end = memory->end, bias = memory->bias;
    uint64_t pc = at->pc, sp = at->sp, bp = at->bp;
    struct walk_cache_entry *e = entry_for(cache, pc);
    /*
     * With the room below, saved registers (at most WALK_MOST_BACK below a CFA that is above rsp)
     * cannot lie outside the memory, and the upper end is all that the loop has to watch.
     */
    if (e->pc != pc || sp < memory->start || sp - memory->start < WALK_MOST_BACK || sp >= end)
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
