/*
 * Contexts that the mirror of a thread does not know: by walks of the stack to the first frame that
 * it does.
 */
#include "runtime/exact/exact_inside.h"

#include "runtime/exact/agrees.h"
#include "runtime/exact/mirror.h"
#include "runtime/exact/timing.h"
#include "runtime/modules.h"
#include "unwind/memory.h"

const struct callee *find_callee(struct exact_thread *t, uint64_t target)
{
    struct callee *c = callee_place(t, target);
    if (c->target == target && c->generation == modules_generation)
        return c;
    bool is_final;
    *c = (struct callee){.target = target};
    c->function = code_function_behind(guest->modules, target, &is_final);
    c->key = code_key(guest->modules, c->function, KEY_IS_PC);
    edited_sites_of(c->function, &c->first_site, &c->site_count);
    c->is_untimed = timing_must_not(target, c->function, is_final);
    if (is_final)
        c->generation = modules_generation;
    return c;
}

/* How the function of a frame was entered, by the return address of the frame above it. */
static struct entered entered_by(struct exact_thread *t, uint64_t call, uint32_t call_flags,
                                 uint64_t function)
{
    const struct walk_modules *modules = guest->modules;
    struct entered how = {.site = call && !call_flags ? edited_site_behind(call) : 0,
                          .target = function,
                          .site_key = call ? code_key(modules, call, call_flags) : 0,
                          .callee = *find_callee(t, function)};
    if (!how.site)
        return how;
    how.ret = call;
    how.is_indirect = true;
    const struct edited_module *m = edited_by_site(how.site);
    const struct plan_site *s = edited_site(m, how.site);
    if (s->kind == SITE_CALL) {
        how.target = site_target(m, s);
        how.is_indirect = false;
        /* A direct call to another function, which then went on here by a tail jump. */
        if (find_callee(t, how.target)->function != function)
            how.site = 0;
    }
    if (s->flags & SITE_TO_LEAF)
        how.ret = 0;
    return how;
}

static struct walk_result walk(struct exact_thread *t, const struct walk_registers *r,
                               uint64_t restored_below, uint32_t most)
{
    struct thread *thread = t->thread;
    uint64_t sp = r->value[X86_RSP];
    bool is_known = sp >= thread->stack_start && sp < thread->stack_end;
    struct walk_memory memory = memory_of_this_process(is_known ? thread->stack_start : 0,
                                                       is_known ? thread->stack_end : 0);
    memory.restored_below = restored_below;
    memory.leave_code = exact_leave_code;
    memory.is_at_call = true;
    struct walk_result walked =
        walk_frames_cached(&t->cache, guest->modules, r, &memory, t->frames, most);
    if (walked.end == WALK_COMPLETE && memory.start <= thread->first_sp &&
        thread->first_sp < memory.end &&
        (memory.start < thread->stack_start || !thread->stack_end)) {
        thread->stack_start = memory.start;
        thread->stack_end = memory.end;
    }
    return walked;
}

static uint64_t function_of(const struct walk_modules *modules, const struct walk_frame *f)
{
    return modules_function(modules, f->pc - !(f->flags & FRAME_IS_PC));
}

/* The innermost of the frames that the mirror knows; `count`: none. The first one it does not. */
static uint32_t find_known(const struct walk_modules *modules, const struct walk_frame *frames,
                           uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (modules_role(modules, frames[i].module) == ROLE_OURS)
            continue;
        const struct arena_record *record = mirror_find(frames[i].slot);
        if (record &&
            (record->flags & RECORD_OVERFLOW ||
             record->callee == code_key(modules, function_of(modules, &frames[i]), KEY_IS_PC)))
            return i;
    }
    return count;
}

struct arena_record *walk_anew(struct exact_thread *t, const struct walk_registers *r,
                               uint64_t restored_below)
{
    enum { FEW = 16, GROWTH = 16 };
    const struct walk_modules *modules = guest->modules;
    struct walk_result walked;
    uint32_t known;
    for (uint32_t most = FEW;; most *= GROWTH) {
        walked = walk(t, r, restored_below, most);
        known = find_known(modules, t->frames, walked.count);
        if (known < walked.count || walked.end != WALK_LIMIT || most == MOST_FRAMES)
            break;
    }
    struct arena_record *record = t->records.root;
    uint64_t call = 0;       /* return address of the call that led to the frame, */
    uint32_t call_flags = 0; /* or where a signal interrupted */
    if (known < walked.count)
        record = t->joined = mirror_find(t->frames[known].slot);
    else if (walked.end != WALK_COMPLETE)
        record = records_gap(&t->records, walked.end);
    for (uint32_t i = known < walked.count ? known + 1 : walked.count; i-- > 0;) {
        const struct walk_frame *f = &t->frames[i];
        if (modules_role(modules, f->module) == ROLE_OURS)
            continue;
        if (i != known) {
            struct entered how = entered_by(t, call, call_flags, function_of(modules, f));
            if (i + 1 < walked.count && t->frames[i + 1].pc != call) /* one of ours is between */
                how.ret = 0;
            how.slot = (uint32_t)f->slot;
            struct arena_record *counter = records_child(&t->records, record, &how);
            note_height(counter, how.slot);
            record = entered_record(counter);
            if (how.ret && f->slot) /* which may be that of a stub */
                mirror_put(f->slot, record, *(const uint64_t *)f->slot);
        }
        call = f->pc;
        call_flags = f->flags & FRAME_IS_PC ? KEY_IS_PC : 0;
    }
    return record;
}

struct arena_record *find_own(struct exact_thread *t, const struct slow_frame *f,
                              const struct call *c, enum slow_reason *why)
{
    t->joined = NULL;
    struct arena_record *known = c->slot ? mirror_find(c->slot) : NULL;
    if (known &&
        (known == t->records.overflow || c->how.site - known->first_site < known->site_count))
        return known;
    const struct callee *function = find_callee(t, c->module->base + c->site->function);
    if (known && !known->site_count && known->callee == function->key) {
        struct arena_record *bound = records_bound(&t->records, known, function);
        if (bound) {
            mirror_put(c->slot, bound, *(const uint64_t *)c->slot);
            return bound;
        }
    }
    struct walk_registers r = registers_at_site(f, c->module->base + c->site->offset, c->sp);
    *why = SLOW_RESYNC;
    return walk_anew(t, &r, c->is_tail ? c->sp : 0);
}
