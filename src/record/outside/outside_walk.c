#include "record/outside/outside_walk.h"

#include "base/page.h"
#include "record/kernel_names.h"
#include "record/outside/outside_base.h"

#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/uio.h>

enum { LARGE_FRAME = 1 << 20, OUTSIDE_SP = PERF_REG_X86_SP };

static void take_registers(const uint64_t *from, struct walk_registers *r)
{
    static const uint8_t order[OUTSIDE_REGISTERS] = {
        X86_RAX, X86_RBX, X86_RCX, X86_RDX, X86_RSI, X86_RDI, X86_RBP, X86_RSP, X86_RIP,
        X86_R8,  X86_R9,  X86_R10, X86_R11, X86_R12, X86_R13, X86_R14, X86_R15};
    for (unsigned i = 0; i < OUTSIDE_REGISTERS; i++)
        r->value[order[i]] = from[i];
}

/* --- memory ------------------------------------------------------------------------------------
 */

/* What a walk can read: the window of the stack, code in files, and other code as it is now. */
struct sample_memory {
    const struct outside_process *process;
    const struct outside_sample *sample;
    uint64_t sp;
    bool was_cut;     /* it would have read on behind the window */
    uint64_t missing; /* what it could not read, in the end, */
    uint64_t first;   /* and what it wanted first behind the window; 0: nothing */
    bool reads_alive;
};

/* Has the stack filled its window? */
static bool is_full(const struct outside_sample *sample)
{
    return sample->stack_bytes == sample->window_bytes;
}

static bool find_stack(struct walk_memory *memory, struct sample_memory *s, uint64_t address)
{
    enum { MOST_STACK = 1 << 30 };
    uint64_t above = address - s->sp;
    if (above < s->sample->stack_bytes && s->sample->stack_bytes - above >= 8) {
        memory->start = s->sp;
        memory->end = s->sp + s->sample->stack_bytes;
        memory->bias = (uint64_t)(uintptr_t)s->sample->stack - s->sp;
        return true;
    }
    /* Behind the window; or behind a page that was not in memory: the kernel stops there. */
    if (above < (is_full(s->sample) ? MOST_STACK : s->sample->window_bytes + LARGE_FRAME))
        s->first = s->was_cut ? s->first : address;
    s->was_cut |= s->first != 0;
    return false;
}

static bool find_code(struct walk_memory *memory, const struct outside_process *p, uint64_t address)
{
    for (size_t i = 0; i < p->walked.count; i++) {
        const struct outside_module *m = &p->modules.items[i];
        uint64_t start, end;
        if (address < p->walked.items[i].start || address >= p->walked.items[i].end || !m->file)
            continue;
        const void *bytes = outside_file_code(m->file, address - m->bias, &start, &end);
        if (!bytes)
            return false;
        memory->start = start + m->bias;
        memory->end = end + m->bias;
        memory->bias = (uint64_t)(uintptr_t)bytes - memory->start;
        return true;
    }
    return false;
}

/*
 * Code that is in no file: what compilers have made at run time. It is read, never written; and
 * nothing but code, since other memory is not what it was at the sample.
 */
static bool find_made_code(struct walk_memory *memory, const struct outside_process *p,
                           uint64_t address)
{
    static char page[PAGE_BYTES];
    uint64_t start = page_start(address);
    if (!outside_process_has_made(p, address))
        return false;
    struct iovec to = {page, PAGE_BYTES}, from = {(void *)(uintptr_t)start, PAGE_BYTES};
    if (process_vm_readv((pid_t)p->pid, &to, 1, &from, 1, 0) != PAGE_BYTES)
        return false;
    memory->start = start;
    memory->end = start + PAGE_BYTES;
    memory->bias = (uint64_t)(uintptr_t)page - start;
    return true;
}

static bool find_memory(struct walk_memory *memory, uint64_t address)
{
    struct sample_memory *s = memory->context;
    s->missing = address;
    if (find_stack(memory, s, address) || find_code(memory, s->process, address))
        return true;
    s->reads_alive |= outside_process_has_made(s->process, address);
    return find_made_code(memory, s->process, address);
}

/*
 * Did a signal interrupt code on another stack? The handler's alternate stack is what was copied;
 * the other one is not, and has changed since. On one stack both lie close together, but for the
 * frame that was interrupted.
 */
static bool has_left_stack(const struct sample_memory *s, const struct outside_walked *w)
{
    uint64_t above = s->missing - s->sp;
    return w->count > 1 && (w->frames[w->count - 1].flags & FRAME_IS_PC) &&
           (s->missing < s->sp || above > s->sample->stack_bytes + LARGE_FRAME);
}

static uint32_t end_of_walk(enum walk_end end, const struct sample_memory *s,
                            const struct outside_walked *w)
{
    if (end == WALK_MEMORY && has_left_stack(s, w))
        return WALK_SWITCHED;
    return end != WALK_COMPLETE && s->was_cut ? ARENA_GAP_WINDOW : (uint32_t)end;
}

/* Is the return address what a special rule reads first from the stack? */
static bool reads_return_first(const struct outside_process *p, const struct walk_frame *f)
{
    const struct walk_module *m = f->module < p->walked.count ? &p->walked.items[f->module] : NULL;
    uint64_t offset = m ? f->pc - !(f->flags & FRAME_IS_PC) - m->base : 0;
    int64_t row = m && m->tables ? map_find_row(m->tables, offset) : NO_ROW;
    if (row == NO_ROW)
        return false;
    uint32_t rule = m->tables->rows[row].rule;
    const struct map_range *correction = map_find_correction(m->tables, offset);
    if (correction && (f->flags & FRAME_IS_PC))
        rule = correction->value;
    if (RULE_KIND(rule) != RULE_SPECIAL || RULE_SPECIAL_INDEX(rule) >= m->tables->special_count)
        return false;
    const struct map_special *s = &m->tables->specials[RULE_SPECIAL_INDEX(rule)];
    return (s->cfa_kind == CFA_REG || s->cfa_kind == CFA_PLT) && s->place[AT_RIP].kind == PLACE_CFA;
}

/*
 * Where the return address of the last frame is, which could not be read; 0: not known. A direct
 * rule reads nothing else before it.
 */
static uint64_t last_slot(const struct outside_process *p, const struct sample_memory *s,
                          const struct outside_walked *w)
{
    if (!w->count)
        return 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->frames[i].flags & FRAME_UNKNOWN) /* more was tried there */
            return 0;
    const struct walk_frame *last = &w->frames[w->count - 1];
    return !(last->flags & FRAME_SPECIAL) ? s->missing : reads_return_first(p, last) ? s->first : 0;
}

/* --- the walk ----------------------------------------------------------------------------------
 */

void outside_walk(struct outside_process *p, const struct outside_sample *sample, bool remembering,
                  struct outside_walked *out)
{
    struct walk_registers r = {0};
    take_registers(sample->registers, &r);
    struct sample_memory s = {.process = p, .sample = sample, .sp = r.value[X86_RSP]};
    struct walk_memory memory = {.start = s.sp,
                                 .end = s.sp + sample->stack_bytes,
                                 .bias = (uint64_t)(uintptr_t)sample->stack - s.sp,
                                 .find_memory = find_memory,
                                 .context = &s};
    struct walk_modules modules = outside_process_modules(p);
    struct walk_result result =
        remembering
            ? walk_frames_cached(&p->cache, &modules, &r, &memory, out->frames, OUTSIDE_MOST_FRAMES)
            : walk_frames(&modules, &r, &memory, out->frames, OUTSIDE_MOST_FRAMES);
    out->count = result.count;
    out->end = end_of_walk(result.end, &s, out);
    out->reads_alive = s.reads_alive;
    out->slot =
        result.end == WALK_MEMORY && out->end == ARENA_GAP_WINDOW ? last_slot(p, &s, out) : 0;
}

/* Only the pc is known. */
static void walk_pc(const struct outside_process *p, uint64_t pc, struct outside_walked *out)
{
    struct walk_modules modules = outside_process_modules(p);
    out->count = 1;
    out->end = ARENA_GAP_OTHER;
    out->reads_alive = false;
    out->slot = 0;
    out->frames[0] = (struct walk_frame){.pc = pc, .module = UINT32_MAX, .flags = FRAME_IS_PC};
    for (uint32_t i = 0; i < modules.count; i++)
        if (pc >= modules.items[i].start && pc < modules.items[i].end)
            out->frames[0].module = i;
}

static bool is_same_walk(const struct outside_walked *a, const struct outside_walked *b)
{
    bool same = a->count == b->count && a->end == b->end;
    for (uint32_t i = 0; same && i < a->count; i++)
        same = a->frames[i].pc == b->frames[i].pc && a->frames[i].module == b->frames[i].module;
    return same;
}

/* --- the context -------------------------------------------------------------------------------
 */

/* The key of a return address. */
static uint64_t key_of_return(const struct outside_process *p, uint64_t pc)
{
    for (size_t i = 0; i < p->walked.count; i++)
        if (pc > p->walked.items[i].start && pc <= p->walked.items[i].end && p->modules.items[i].id)
            return KEY_MAKE(p->modules.items[i].id, 0, pc - p->walked.items[i].base);
    return KEY_MAKE(pc >> 32 & 0xffffff, KEY_ADDRESS, pc);
}

static uint64_t key_of(const struct outside_process *p, const struct walk_frame *f)
{
    uint32_t flags =
        (f->flags & FRAME_IS_PC ? KEY_IS_PC : 0u) | (f->flags & FRAME_GUESSED ? KEY_GUESSED : 0u);
    if (f->module == UINT32_MAX || !p->modules.items[f->module].id)
        return KEY_MAKE(f->pc >> 32 & 0xffffff, flags | KEY_ADDRESS, f->pc);
    return KEY_MAKE(p->modules.items[f->module].id, flags, f->pc - p->walked.items[f->module].base);
}

static uint32_t count_kernel(struct outside *o, struct outside_process *p, struct outside_tree *t,
                             uint32_t node, const struct outside_sample *sample)
{
    if (!p->kernel_id)
        p->kernel_id = outside_arena_add_module(
            &p->arena, &(struct outside_module_fields){.start = KERNEL_BASE,
                                                       .end = UINT64_MAX,
                                                       .base = KERNEL_BASE,
                                                       .kind = MODULE_KERNEL,
                                                       .path = "[kernel]"});
    if (!o->names_kernel)
        return outside_tree_child(&p->arena, t, node, KEY_MAKE(p->kernel_id, KEY_IS_PC, 0));
    bool is_there = false;
    for (uint64_t i = sample->chain_count; i-- > 0;) {
        uint64_t address = sample->chain[i];
        if (address < KERNEL_BASE || address >= PERF_CONTEXT_MAX)
            continue;
        bool is_pc = address == sample->ip;
        node = outside_tree_child(
            &p->arena, t, node,
            KEY_MAKE(p->kernel_id, is_pc ? KEY_IS_PC : 0u, address - KERNEL_BASE));
        is_there = true;
    }
    return is_there ? node
                    : outside_tree_child(
                          &p->arena, t, node,
                          KEY_MAKE(p->kernel_id, KEY_IS_PC,
                                   sample->ip >= KERNEL_BASE ? sample->ip - KERNEL_BASE : 0));
}

static void check_walk(struct outside_process *p, const struct outside_tree *t,
                       const struct outside_sample *sample, const struct outside_walked *first)
{
    static struct outside_walked again;
    outside_walk(p, sample, false, &again);
    bool is_same = is_same_walk(first, &again);
    if (!is_same && (first->reads_alive || again.reads_alive))
        return; /* what they read may not have been the same */
    t->record->verify_checked++;
    t->record->verify_differ += !is_same;
}

/*
 * Where a walk was cut, the height at which it was stands for the callers, below the outermost one.
 * Returns the node; 0: the height is not known.
 */
static uint32_t count_height(struct outside_process *p, struct outside_thread *thread,
                             const struct outside_sample *sample, struct outside_walked *w)
{
    enum { MOST_WORDS = 1 << 24 };
    struct outside_base *b = &thread->base;
    if (w->end != ARENA_GAP_WINDOW || !w->slot || w->slot % 8 ||
        !outside_base_find(p, b, sample->registers[OUTSIDE_SP]) || w->slot > b->slot ||
        (b->slot - w->slot) / 8 >= MOST_WORDS)
        return 0;
    uint64_t words = (b->slot - w->slot) / 8;
    uint32_t node = outside_tree_child(&p->arena, &thread->tree, thread->tree.record->root,
                                       key_of_return(p, b->word));
    w->end = words ? (uint32_t)ARENA_GAP_HEIGHT : WALK_COMPLETE;
    return words ? outside_tree_child(&p->arena, &thread->tree, node,
                                      KEY_MAKE(words, KEY_GAP, ARENA_GAP_HEIGHT))
                 : node;
}

/* Of a frame of a complete walk, in words: how far its return address is below the outermost one.
 */
static uint32_t own_height(const struct outside_walked *w, uint32_t frame)
{
    if (w->end != WALK_COMPLETE || w->count < 2 || !w->frames[frame].slot)
        return 0;
    uint64_t base = w->frames[w->count - 2].slot, bytes = base - w->frames[frame].slot;
    return w->frames[frame].slot <= base && bytes % 8 == 0 && bytes / 8 < OUTSIDE_HEIGHT_VARIES
               ? (uint32_t)(bytes / 8)
               : 0;
}

void outside_count(struct outside *o, struct outside_process *p, struct outside_thread *thread,
                   const struct outside_sample *sample, uint64_t time_ns)
{
    static struct outside_walked walked;
    struct outside_tree *t = &thread->tree;
    uint32_t node = t->record->root;
    walked.count = 0;
    walked.end = WALK_COMPLETE;
    if (sample->registers) {
        outside_walk(p, sample, true, &walked);
        if (o->verify)
            check_walk(p, t, sample, &walked);
    } else if (!sample->in_kernel) {
        walk_pc(p, sample->ip, &walked);
    }
    o->samples_32 += sample->abi == OUTSIDE_ABI_32;
    uint32_t above = o->by_height ? count_height(p, thread, sample, &walked) : 0;
    if (above)
        node = above;
    else if (walked.end != WALK_COMPLETE)
        node = outside_tree_child(&p->arena, t, node, KEY_MAKE(0, KEY_GAP, walked.end));
    else if (!walked.count)
        node = outside_tree_child(&p->arena, t, node, KEY_MAKE(0, KEY_LABEL, LABEL_NOT_ATTRIBUTED));
    for (uint32_t i = walked.count; i-- > 0;) {
        node = outside_tree_child(&p->arena, t, node, key_of(p, &walked.frames[i]));
        if (o->by_height && !above)
            outside_tree_note_height(&p->arena, node, own_height(&walked, i));
    }
    t->record->frames_walked += walked.count;
    if (sample->window_bytes == o->events.window_bytes) { /* not of an earlier one */
        o->samples++;
        o->cut += walked.end == ARENA_GAP_WINDOW && is_full(sample); /* a larger one would do */
        o->heights += walked.end == ARENA_GAP_HEIGHT;
    }
    if (sample->in_kernel)
        node = count_kernel(o, p, t, node, sample);
    outside_tree_count(&p->arena, t, node, walked.end, time_ns);
}
