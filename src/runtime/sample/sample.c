/*
 * Engine `sample`: a sample is the stack of the interrupted thread, walked, and one more in its
 * context. The walks of events (charge.c), and of other engines that take samples, are these, too.
 */
#include "runtime/sample/sample.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/arena.h"
#include "runtime/channel_format.h"
#include "runtime/engine.h"
#include "runtime/event.h"
#include "runtime/modules.h"
#include "runtime/sample/times.h"
#include "runtime/sample/trampoline.h"
#include "runtime/thread.h"
#include "runtime/ticks_owed.h"
#include "unwind/memory.h"
#include "unwind/walk_check.h"

#include <string.h>
#include <ucontext.h>

enum { RED_ZONE = 128 };

void sample_registers(const ucontext_t *context, struct walk_registers *r)
{
    static const struct {
        uint8_t to, from;
    } order[] = {{X86_RAX, REG_RAX}, {X86_RDX, REG_RDX}, {X86_RCX, REG_RCX}, {X86_RBX, REG_RBX},
                 {X86_RSI, REG_RSI}, {X86_RDI, REG_RDI}, {X86_RBP, REG_RBP}, {X86_RSP, REG_RSP},
                 {X86_R8, REG_R8},   {X86_R9, REG_R9},   {X86_R10, REG_R10}, {X86_R11, REG_R11},
                 {X86_R12, REG_R12}, {X86_R13, REG_R13}, {X86_R14, REG_R14}, {X86_R15, REG_R15},
                 {X86_RIP, REG_RIP}};
    for (unsigned i = 0; i < sizeof order / sizeof order[0]; i++)
        r->value[order[i].to] = (uint64_t)context->uc_mcontext.gregs[order[i].from];
}

/*
 * What may be read without asking: the thread's own stack where earlier walks have been, or the
 * page that the stack pointer is in. The red zone below rsp is part of it.
 */
struct walk_memory sample_memory(const struct thread *t, uint64_t sp)
{
    uint64_t low = sp - RED_ZONE;
    bool is_known = low >= t->stack_start && sp < t->stack_end;
    struct walk_memory memory =
        memory_of_this_process(is_known ? t->stack_start : 0, is_known ? t->stack_end : 0);
    memory.leave_code = engine()->leave_code;
    return memory;
}

/*
 * A walk that has read its way to the thread's first frame knows the stack. Further down it is
 * asked for page by page, each once: walks skip the pages of large frames, and end at marks.
 */
void sample_learn_stack(struct thread *t, const struct walk_memory *memory, uint64_t sp)
{
    enum { MOST_AT_A_TIME = 1 << 20 };
    if (memory->start <= t->first_sp && t->first_sp < memory->end &&
        (memory->start < t->stack_start || !t->stack_end)) {
        t->stack_start = memory->start;
        t->stack_end = memory->end;
    }
    while (sp - RED_ZONE < t->stack_start && t->stack_start - sp < MOST_AT_A_TIME &&
           memory_can_be_read(t->stack_start - 8))
        t->stack_start -= PAGE_BYTES;
}

uint64_t sample_key(const struct walk_modules *modules, const struct walk_frame *f)
{
    uint32_t flags =
        (f->flags & FRAME_IS_PC ? KEY_IS_PC : 0u) | (f->flags & FRAME_GUESSED ? KEY_GUESSED : 0u);
    if (f->module == UINT32_MAX)
        return KEY_MAKE(f->pc >> 32 & 0xffffff, flags | KEY_ADDRESS, f->pc);
    return KEY_MAKE(modules_id(modules, f->module), flags, f->pc - modules->items[f->module].base);
}

/* What is known of the stack's nodes holds for one phase. */
bool sample_enter_phase(struct thread *t)
{
    uint32_t phase = guest->arena->phase;
    if (!t->record->root && !cct_begin(&t->tree, t->record))
        return false;
    if (t->base && t->phase == phase)
        return true;
    uint32_t base = t->record->root;
    if (phase)
        base = cct_child(&t->tree, base, KEY_MAKE(0, KEY_PHASE, phase));
    if (!base)
        return false;
    t->base = base;
    t->phase = phase;
    t->stack.past_count = 0;
    if (t->second)
        t->second->stack.past_count = 0;
    trampoline_forget(t);
    return true;
}

/* The node of the walked stack; frames that were there before keep their nodes. 0: no room. */
uint32_t sample_node(struct thread *t, struct thread *of, const struct walk_modules *modules)
{
    const struct thread_stack *s = &of->stack;
    uint32_t node = t->base;
    if (s->end != WALK_COMPLETE)
        node = cct_child(&t->tree, node, KEY_MAKE(0, KEY_GAP, s->end));
    else if (s->kept)
        node = of->nodes[s->kept - 1];
    for (uint32_t i = s->kept; i < s->count && node;) {
        uint64_t keys[CCT_PATH_MOST];
        uint32_t count = s->count - i < CCT_PATH_MOST ? s->count - i : CCT_PATH_MOST;
        for (uint32_t k = 0; k < count; k++) /* our own stand-ins for libc's are not shown */
            keys[k] = modules_role(modules, s->frames[i + k].module) == ROLE_OURS
                          ? 0
                          : sample_key(modules, &s->frames[i + k]);
        node = cct_path(&t->tree, node, keys, count, of->nodes + i);
        i += count;
    }
    return node;
}

/* Walks the stack; one that is deeper than there is room for, once more with more room. */
void sample_walk(struct thread *t, const struct walk_modules *modules,
                 const struct walk_registers *r, struct walk_memory *memory, struct stack_mark mark)
{
    enum { GROWTH = 16 };
    stack_walk(&t->stack, modules, r, memory, mark);
    while (t->stack.end == WALK_LIMIT && thread_grow(t, t->stack.room * GROWTH))
        stack_walk(&t->stack, modules, r, memory, (struct stack_mark){0});
}

/* Where a correction was used: does the walk by the file's own CFI not do better? */
static bool agrees_with_cfi(struct thread *t, const struct walk_modules *modules,
                            const struct walk_registers *r, struct walk_memory memory)
{
    if (!walk_was_corrected(modules, t->stack.frames, t->stack.count))
        return true;
    memory.without_corrections = true;
    struct walk_result first = {.count = t->stack.count, .end = t->stack.end};
    struct walk_result second = walk_frames(modules, r, &memory, t->stack.fresh, t->stack.room);
    return !walk_is_refuted(memory, first, t->stack.frames, second, t->stack.fresh);
}

static void verify(struct thread *t, const struct walk_modules *modules,
                   const struct walk_registers *r, struct walk_memory memory)
{
    /* The slow walker looks everything up in the tables; its frames are the other way round. */
    struct marks_met met;
    trampoline_prepare_walk(&met);
    memory.marks = &met.walk;
    struct walk_frame *frames = t->stack.fresh;
    struct walk_result plain = walk_frames(modules, r, &memory, frames, t->stack.room);
    bool same = plain.count == t->stack.count && plain.end == t->stack.end;
    for (uint32_t i = 0; same && i < plain.count; i++)
        same = frames[plain.count - 1 - i].pc == t->stack.frames[i].pc;
    if (same && t->stack.end == WALK_COMPLETE)
        same = ENGINE_ASK(true, agrees, modules, t->stack.frames, t->stack.count);
    bool frame_pointers =
        walk_agrees_with_frame_pointers(modules, memory, t->stack.frames, t->stack.count);
    bool cfi = agrees_with_cfi(t, modules, r, memory);
    t->record->verify_checked++;
    t->record->verify_differ += !same || !cfi || !frame_pointers;
    t->record->verify_by_cfi += !cfi;
    t->record->verify_by_frame_pointers += !frame_pointers;
}

void sample_account(struct thread *t, uint32_t node, uint64_t weight, enum walk_end end)
{
    struct arena_thread *record = t->record;
    uint64_t passed_ns = weight * event_period_ns(t);
    ((struct arena_node *)arena_at(node))->count += (uint32_t)weight;
    record->samples += weight;
    times_keep(t, node, weight);
    record->sampled_ns += passed_ns;
    t->accounted_ns += passed_ns;
    record->ends[end] += weight;
}

bool sample_take(struct thread *t, const ucontext_t *context, uint64_t ticks)
{
    if (!sample_enter_phase(t)) {
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    struct walk_registers r;
    sample_registers(context, &r);
    uint64_t restored_below = 0;
    if (!ENGINE_ASK(true, leave_code, &r, &restored_below)) {
        tick_owe(t, LOST_BUSY, ticks);
        return true;
    }
    const struct walk_modules *modules = guest->modules;
    struct walk_memory memory = sample_memory(t, r.value[X86_RSP]);
    memory.restored_below = restored_below;
    const struct walk_memory at_first = memory;
    struct marks_met met;
    trampoline_prepare_walk(&met);
    memory.marks = &met.walk;
    struct stack_mark mark = trampoline_intact(t, r.value[X86_RSP]);
    sample_walk(t, modules, &r, &memory, mark);
    if (t->stack.end == WALK_COMPLETE)
        sample_learn_stack(t, &memory, r.value[X86_RSP]);
    uint32_t node = sample_node(t, t, modules);
    if (!node) {
        t->stack.past_count = 0; /* the nodes of its frames are not complete */
        trampoline_forget(t);
        cct_want(&t->tree, t->stack.count);
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    sample_account(t, node, ticks + tick_settle(t), t->stack.end);
    t->record->frames_walked += t->stack.count - t->stack.kept;
    if (guest->flags & CHANNEL_VERIFY)
        verify(t, modules, &r, at_first);
    if (trampoline_is_on())
        trampoline_mark(t, modules, mark, &met);
    else if (t->mark.set) /* what has been loaded since does not permit it */
        trampoline_unmark(t, r.value[X86_RSP]);
    return true;
}

static void rest(struct thread *t, uint64_t sp)
{
    trampoline_unmark(t, sp);
}

static void end_thread(struct thread *t)
{
    trampoline_unmark(t, (uint64_t)__builtin_frame_address(0));
}

const struct engine engine_sample = {.process_begins = trampoline_begin,
                                     .thread_ends = end_thread,
                                     .sample = sample_take,
                                     .rests = rest};
