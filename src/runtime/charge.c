#include "runtime/charge.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena.h"
#include "runtime/modules.h"
#include "runtime/registers_here.h"
#include "runtime/sample/sample.h"
#include "runtime/sample/trampoline.h"
#include "runtime/threads_ended.h"
#include "runtime/ticks_owed.h"
#include "unwind/memory.h"

/* A frame that was left by a jump lies below all that runs later on the same stack. */
bool charge_is_under_way(struct thread *t, uint64_t sp)
{
    if (t->charging_at && sp > t->charging_at && charge_is_own_stack(t, sp) &&
        charge_is_own_stack(t, t->charging_at))
        t->charging_at = 0;
    return t->charging_at != 0;
}

static bool begin_charging(struct thread *t, uint64_t frame)
{
    if (!t->second || charge_is_under_way(t, frame))
        return false;
    __atomic_store_n(&t->charging_at, frame,
                     __ATOMIC_SEQ_CST); /* before the modules are looked at */
    return true;
}

static void end_charging(struct thread *t)
{
    __atomic_store_n(&t->charging_at, 0, __ATOMIC_RELEASE);
}

static struct thread *known_thread(void)
{
    struct thread *t = thread_self();
    return t && t->of == guest && t->record ? t : NULL;
}

static uint32_t no_context(const struct thread *t)
{
    __atomic_fetch_add((uint32_t *)&guest->arena->without_context, 1, __ATOMIC_RELAXED);
    return t ? t->record->root : 0;
}

static uint32_t leaf(struct thread *t, const struct walk_modules *modules, uint32_t node,
                     const void *function)
{
    struct walk_frame f = {.pc = (uint64_t)function, .flags = FRAME_IS_PC};
    f.module = modules_find(modules, f.pc);
    return cct_child(&t->tree, node, sample_key(modules, &f));
}

/* Ticks that came while this was at work found the thread in this very context. */
static void settle_ticks(struct thread *t, uint32_t node)
{
    if (t->owed[LOST_BUSY] && (guest->arena->events.mask & EVENTS_BY_SAMPLES))
        sample_account(t, node, tick_settle(t), t->second->stack.end);
}

__attribute__((noinline)) uint32_t charge_context(const void *function)
{
    struct thread *t = known_thread();
    struct walk_registers r;
    take_registers_here(&r);
    uint64_t sp = r.value[X86_RSP];
    if (!t || !begin_charging(t, sp))
        return no_context(t);
    const struct walk_modules *modules = guest->modules;
    struct walk_memory memory = sample_memory(t, sp);
    struct marks_met met;
    trampoline_prepare_walk(&met);
    met.walk.join = true; /* they are the samples' affair */
    memory.marks = &met.walk;
    uint32_t node = 0;
    if (sample_enter_phase(t)) {
        sample_walk(t->second, modules, &r, &memory, (struct stack_mark){0});
        if (t->second->stack.end == WALK_COMPLETE)
            sample_learn_stack(t, &memory, sp);
        node = sample_node(t, t->second, modules);
        if (!node)
            t->second->stack.past_count = 0; /* the nodes of its frames are not complete */
        if (node && function)
            node = leaf(t, modules, node, function);
    }
    if (node)
        settle_ticks(t, node);
    else
        cct_want(&t->tree, t->second->stack.count + 1);
    end_charging(t);
    return node ? node : no_context(t);
}

__attribute__((noinline)) uint32_t charge_label(uint32_t node, enum arena_label label)
{
    struct thread *t = known_thread();
    if (!t || !node || !begin_charging(t, (uint64_t)__builtin_frame_address(0)))
        return node;
    uint32_t child = cct_child(&t->tree, node, KEY_MAKE(0, KEY_LABEL, label));
    end_charging(t);
    return child ? child : node;
}

void charge_add(uint32_t node, enum arena_value value, uint64_t amount)
{
    if (!node || !guest->arena)
        return;
    uint64_t *at = node_value(guest->arena, arena_at(node), value);
    if (at) /* handlers of the program may add to the same */
        __atomic_fetch_add(at, amount, __ATOMIC_RELAXED);
}

__thread struct memory_points memory_points
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

void charge_thread_begins(struct thread *t)
{
    memory_points = (struct memory_points){0}; /* in a forked child, its parent's */
    if (!(guest->arena->events.mask & EVENTS_OF_MEMORY))
        memory_points.left = UINT64_MAX;
    if (guest->arena->events.mask & ~(uint32_t)EVENT_CPU)
        t->second = thread_take();
}

void charge_thread_ends(struct thread *t)
{
    memory_points.left = 0;
    if (t->second)
        thread_keep(t->second);
    t->second = NULL;
}
