/*
 * Samples by two registers, for a program whose frames have grown: the unwind rule of the pc says
 * where the return address lies, and how far that is below the outermost one of the thread is the
 * height. No other frame is looked at.
 *
 * Where the outermost return address lies is found by a walk of the whole stack, which then counts
 * as one that was seen: the first one of a thread, and one where the stack is deeper than any
 * before. On other stacks, as of coroutines, all walks are such ones.
 */
#include "runtime/infer/growing.h"

#include "runtime/channel_format.h"
#include "runtime/edit/edited.h"
#include "runtime/modules.h"
#include "runtime/sample/sample.h"
#include "runtime/thread.h"
#include "runtime/ticks_owed.h"

enum { RED_ZONE = 128, WORD = 8 };

enum walk_left heights_leave_code(struct walk_registers *r, uint64_t *restored_below)
{
    (void)restored_below;
    const struct edited_left left = edited_leave(r);
    return left.is_lost ? WALK_NOT_LEFT : left.by_return ? WALK_LEFT_BY_RETURN : WALK_LEFT;
}

/* Is the stack pointer where walks have been, and the outermost return address still there? */
static bool is_based(const struct thread *t, uint64_t sp)
{
    const uint64_t slot = t->outermost.slot;
    return slot && sp - RED_ZONE >= t->stack_start && sp < t->stack_end && slot >= sp &&
           slot + WORD <= t->stack_end && *(const uint64_t *)slot == t->outermost.word;
}

/* In words, of the function that was interrupted; false: it is not known. */
static bool find_height(const struct thread *t, const struct walk_modules *modules,
                        const struct walk_registers *r, struct walk_memory memory,
                        struct walk_frame *leaf, uint64_t *words)
{
    enum { MOST_WORDS = 1 << 24 };
    if (!is_based(t, r->value[X86_RSP]))
        return false;
    walk_frames(modules, r, &memory, leaf, 1);
    *words = (t->outermost.slot - leaf->slot) / WORD;
    return leaf->slot && leaf->slot % WORD == 0 && leaf->slot <= t->outermost.slot &&
           *words < MOST_WORDS;
}

/* The node of a function at a height; 0: there is no room. */
static uint32_t node_at(struct thread *t, const struct walk_modules *modules,
                        const struct walk_frame *leaf, uint64_t words)
{
    const struct walk_frame outermost = {.pc = t->outermost.word,
                                         .module = modules_find(modules, t->outermost.word - 1)};
    uint32_t node = cct_child(&t->tree, t->base, sample_key(modules, &outermost));
    if (node && words)
        node = cct_child(&t->tree, node, KEY_MAKE(words, KEY_GAP, ARENA_GAP_HEIGHT));
    return node ? cct_child(&t->tree, node, sample_key(modules, leaf)) : 0;
}

/* A walk of all of the stack, which finds the base. Returns the node. */
static uint32_t walk_all(struct thread *t, const struct walk_modules *modules,
                         const struct walk_registers *r, struct walk_memory memory)
{
    const struct thread_stack *s = &t->stack;
    sample_walk(t, modules, r, &memory, (struct stack_mark){0});
    t->record->frames_walked += s->count - s->kept;
    if (s->end == WALK_COMPLETE) {
        sample_learn_stack(t, &memory, r->value[X86_RSP]);
        bool is_own =
            s->count > 1 && s->frames[1].slot >= t->stack_start && s->frames[1].slot < t->stack_end;
        if (is_own) {
            t->outermost.slot = s->frames[1].slot;
            t->outermost.word = s->frames[0].pc;
        }
    }
    return sample_node(t, t, modules);
}

/* Has the whole stack the base and the height that were believed? */
static void verify(struct thread *t, const struct walk_modules *modules,
                   const struct walk_registers *r, struct walk_memory memory,
                   const struct walk_frame *leaf)
{
    struct walk_frame *frames = t->stack.fresh;
    struct walk_result all = walk_frames(modules, r, &memory, frames, t->stack.room);
    bool same = all.count > 1 && frames[0].slot == leaf->slot &&
                frames[all.count - 2].slot == t->outermost.slot &&
                frames[all.count - 1].pc == t->outermost.word;
    if (all.end != WALK_COMPLETE) /* there is code that no table has: its frames have heights */
        return;
    t->record->verify_checked++;
    t->record->verify_differ += !same;
}

static bool count(struct thread *t, uint32_t node, uint64_t ticks, unsigned end)
{
    if (!node) {
        t->stack.past_count = 0; /* the nodes of its frames are not complete */
        cct_want(&t->tree, t->stack.count + 2);
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    sample_account(t, node, ticks + tick_settle(t), (enum walk_end)end);
    return true;
}

bool heights_sample(struct thread *t, const ucontext_t *context, uint64_t ticks)
{
    struct walk_registers r;
    struct walk_frame leaf;
    uint64_t words, restored_below = 0;
    if (!sample_enter_phase(t)) {
        tick_owe(t, LOST_NO_ROOM, ticks);
        return false;
    }
    sample_registers(context, &r);
    if (!heights_leave_code(&r, &restored_below)) {
        tick_owe(t, LOST_BUSY, ticks);
        return true;
    }
    const struct walk_modules *modules = guest->modules;
    const struct walk_memory memory = sample_memory(t, r.value[X86_RSP]);
    if (!find_height(t, modules, &r, memory, &leaf, &words)) {
        uint32_t node = walk_all(t, modules, &r, memory);
        return count(t, node, ticks, t->stack.end);
    }
    if (!count(t, node_at(t, modules, &leaf, words), ticks,
               words ? (unsigned)ARENA_GAP_HEIGHT : (unsigned)WALK_COMPLETE))
        return false;
    if (guest->flags & CHANNEL_VERIFY)
        verify(t, modules, &r, memory, &leaf);
    return true;
}
