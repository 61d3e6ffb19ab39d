#include "exact_truth.h"

#include "step_memory.h"
#include "step_window.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/syscall.h>

enum { MOST_MOVED = 16, SIGNAL_RIP = 8 + 40 + 16 * 8 };

static const uint64_t outermost_slot = UINT64_MAX;

static struct frame *top(struct exact_truth *t)
{
    return &t->frames.items[t->frames.count - 1];
}

static uint64_t function_at(struct exact_truth *t, uint64_t pc)
{
    struct code code = code_at(t->code, pc);
    return code.function ? code.function : pc;
}

/* --- what is said
 * ---------------------------------------------------------------------------------- */

static void print_place(const struct exact_truth *t, uint64_t pc, bool is_return)
{
    struct module_place place = modules_place(&t->code->modules, pc, is_return);
    printf("%#" PRIx64 " %s+%#" PRIx64, pc, place.module, place.offset);
    if (place.function[0])
        printf(" <%s+%#" PRIx64 ">", place.function, place.function_offset);
}

void exact_truth_print(const struct exact_truth *t, uint32_t context)
{
    const struct context *c = &t->contexts.items.items[context];
    if (!context)
        return;
    exact_truth_print(t, c->parent);
    printf("    %s ", c->is_tail ? "jump" : "call");
    print_place(t, c->site, !c->is_tail);
    printf(" to ");
    print_place(t, c->function, false);
    printf("\n");
}

static void trouble(struct exact_truth *t, const char *what, uint64_t pc)
{
    if (t->trouble++ < t->most_shown) {
        printf("trouble: %s: ", what);
        print_place(t, pc, false);
        printf("\n");
    }
}

static void show(struct exact_truth *t, const char *where, const struct arrival *a, uint32_t truth,
                 uint64_t record)
{
    if (t->shown++ >= t->most_shown)
        return;
    printf("wrong context %s: site ", where);
    print_place(t, a->site, false);
    printf("\n  true:\n");
    exact_truth_print(t, truth);
    printf("  the engine's:\n");
    if (record)
        exact_truth_print(t, engine_context(t->engine, &t->contexts, record));
    else
        printf("    (none)\n");
}

static enum verdict judge(struct exact_truth *t, const struct frame *f, uint64_t record)
{
    if (!record)
        return f->was_edited ? SAYS_TOO_LITTLE : SAYS_NOTHING;
    uint32_t said = engine_context(t->engine, &t->contexts, record);
    return said == f->context ? SAYS_RIGHT : said == f->as_walked ? LACKS_TAIL : SAYS_WRONG;
}

/* --- calls and tail jumps -----------------------------------------------------------------------
 */

static enum caller_kind caller_of(struct exact_truth *t, const struct arrival *a)
{
    static const enum caller_kind kinds[CODE_KINDS] = {
        [CODE_NOWHERE] = FROM_CODE_AT_RUN, [CODE_PROGRAM] = FROM_LEFT_SITE,
        [CODE_LINKER] = FROM_LINKER,       [CODE_VDSO] = FROM_VDSO,
        [CODE_OURS] = FROM_OURS,           [CODE_STUB] = FROM_CODE_AT_RUN};
    return a->is_edited ? FROM_SITE : kinds[code_at(t->code, a->site).kind];
}

/* The innermost frame that shows, and the return address in it. */
static const struct frame *shown_caller(const struct exact_truth *t, size_t count, uint64_t *ret)
{
    while (count > 1 && t->frames.items[count - 1].is_ours) {
        *ret = t->frames.items[count - 1].ret;
        count--;
    }
    return &t->frames.items[count - 1];
}

static void count_seen(struct exact_truth *t, uint32_t context, uint32_t as_walked)
{
    struct context *c = &t->contexts.items.items[context];
    c->seen++;
    c->as_walked = as_walked;
}

static void enter_by_call(struct exact_truth *t, const struct arrival *a, uint64_t function,
                          bool is_ours)
{
    uint64_t ret = a->ret;
    struct frame caller = *shown_caller(t, t->frames.count, &ret);
    struct frame new = {.slot = a->slot,
                        .ret = a->ret,
                        .context = context_of(&t->contexts, caller.context, ret, function, false),
                        .is_ours = is_ours,
                        .was_edited = a->is_edited};
    new.as_walked = context_of(&t->contexts, caller.as_walked, ret, function, false);
    vec_push(&t->frames, new);
    if (a->is_edited)
        count_seen(t, new.context, new.as_walked);
}

static void enter_by_tail(struct exact_truth *t, const struct arrival *a, uint64_t function,
                          bool is_ours)
{
    struct contexts *all = &t->contexts;
    struct frame *f = top(t);
    if (f->is_ours) { /* it does not show: its caller has called */
        uint64_t ret = f->ret;
        const struct frame *caller = shown_caller(t, t->frames.count, &ret);
        f->context = context_of(all, caller->context, ret, function, false);
        f->as_walked = context_of(all, caller->as_walked, ret, function, false);
        f->is_ours = is_ours;
        f->was_edited = false;
        return;
    }
    uint32_t counted = context_of(all, f->context, a->site, function, true);
    f->context = context_after_tail(all, counted);
    f->is_ours = is_ours;
    if (a->is_edited) {
        uint32_t walked = context_of(all, f->as_walked, a->site, function, true);
        count_seen(t, counted, walked);
        if (f->was_edited) {
            f->as_walked = context_after_tail(all, walked);
            return;
        }
    }
    /* Not known to the mirror, before or from now on: it is walked to from its caller. */
    const struct context *called = &all->items.items[context_called(all, f->as_walked)];
    f->as_walked = context_of(all, called->parent, called->site, function, false);
    f->was_edited = false;
}

/* Before the frames change. */
static void judge_caller(struct exact_truth *t, const struct arrival *a)
{
    enum verdict v = judge(t, top(t), a->own);
    t->at_site[v]++;
    if (v >= SAYS_TOO_LITTLE)
        show(t, "of the caller", a, top(t)->context, a->own);
}

/* Of a function without sites the mirror need not know: whether it has some is seen at the first.
 */
static void judge_callee(struct exact_truth *t, const struct arrival *a)
{
    struct frame f = *top(t);
    uint64_t record = engine_record(t->engine, f.slot, f.ret);
    f.was_edited = false;
    bool is_early = a->was_bound || (a->is_tail && record == a->own);
    enum verdict v = is_early ? SAYS_NOTHING : judge(t, &f, record);
    t->at_arrival[v]++;
    if (v >= SAYS_TOO_LITTLE)
        show(t, "of the callee", a, f.context, record);
}

static void enter(struct exact_truth *t, const struct arrival *a, uint64_t pc)
{
    struct code callee = code_at(t->code, pc);
    uint64_t function = callee.function ? callee.function : pc;
    bool is_ours = callee.kind == CODE_OURS;
    enum caller_kind kind = caller_of(t, a);
    (a->is_tail ? t->tail_jumps : t->calls)[kind]++;
    if (kind == FROM_LEFT_SITE && t->shown_left++ < t->most_shown) {
        printf("%s from a site that was left alone: ", a->is_tail ? "tail jump" : "call");
        print_place(t, a->site, false);
        printf("\n");
    }
    if (a->is_edited)
        judge_caller(t, a);
    if (a->is_tail)
        enter_by_tail(t, a, function, is_ours);
    else
        enter_by_call(t, a, function, is_ours);
    if (a->is_edited)
        judge_callee(t, a);
}

/* The dynamic linker binds a function, and then jumps to it. */
static void enter_binder(struct exact_truth *t, const struct arrival *a, uint64_t pc)
{
    uint64_t ret = a->is_tail ? top(t)->ret : a->ret;
    uint64_t function = function_at(t, pc);
    const struct frame *caller = top(t);
    uint32_t context = context_of(&t->contexts, caller->context, ret, function, false);
    uint32_t walked = context_of(&t->contexts, caller->as_walked, ret, function, false);
    struct frame binder = {.slot = a->slot,
                           .ret = ret,
                           .context = context,
                           .as_walked = walked,
                           .is_binder = true,
                           .bound = *a};
    vec_push(&t->frames, binder);
}

static void arrive(struct exact_truth *t, const struct arrival *a, uint64_t pc)
{
    struct code there = code_at(t->code, pc);
    t->pending = *a;
    t->pending.is_on = there.in_plt && there.kind == CODE_PROGRAM;
    if (!t->pending.is_on)
        enter(t, a, pc);
}

static void drop_dead(struct exact_truth *t, uint64_t rsp)
{
    while (t->frames.count > 1 && top(t)->slot < rsp)
        t->frames.count--;
}

static void called(struct exact_truth *t, const struct code *site, uint64_t own, bool is_edited,
                   const struct user_regs_struct *after)
{
    struct arrival a = {.is_edited = is_edited,
                        .site = site->pc,
                        .ret = site->pc + site->length,
                        .slot = after->rsp,
                        .own = own};
    uint64_t word;
    drop_dead(t, a.slot + 8);
    if (!read_word(t->pid, a.slot, &word) || word != a.ret)
        trouble(t, "a call without its return address", site->pc);
    arrive(t, &a, after->rip);
}

/* Does a jump with the return address at the top of the stack leave its function for another? */
static bool leaves(const struct code *from, const struct code *to)
{
    if (to->in_plt && to->kind == CODE_PROGRAM)
        return !from->in_plt;
    if (!to->at_start)
        return false;
    return from->function != to->function || from->part != to->part || from->is_indirect;
}

static void jumped(struct exact_truth *t, const struct code *site, uint64_t own, bool is_edited,
                   const struct user_regs_struct *after)
{
    if (after->rsp != top(t)->slot)
        return;
    struct code to = code_at(t->code, after->rip);
    if (top(t)->is_binder && site->kind == CODE_LINKER && to.kind != CODE_LINKER) {
        struct arrival a = top(t)->bound;
        a.was_bound = true;
        t->frames.count--;
        enter(t, &a, after->rip);
    } else if (leaves(site, &to)) {
        struct arrival a = {.is_tail = true,
                            .is_edited = is_edited,
                            .site = site->pc,
                            .slot = after->rsp,
                            .own = own};
        arrive(t, &a, after->rip);
    }
}

/* --- the way through stubs
 * ------------------------------------------------------------------------ */

static void begin_way(struct exact_truth *t, uint64_t from)
{
    const struct frame *f = top(t);
    t->way = (struct way){.is_on = true, .from = from};
    t->way.own = engine_record(t->engine, f->slot, f->ret);
}

/* Control has come out: what has the program itself done since the way began? */
static void end_way(struct exact_truth *t, const struct user_regs_struct *after)
{
    uint64_t at = t->way.from, own = t->way.own;
    t->way.is_on = false;
    for (unsigned i = 0; i < MOST_MOVED; i++) {
        struct code code = code_at(t->code, at);
        switch (code.transfer) {
        case CALLS:
            called(t, &code, own, true, after);
            return;
        case JUMPS:
            jumped(t, &code, own, true, after);
            return;
        case JUMPS_OR_GOES_ON:
            if (after->rip != at + code.length) {
                jumped(t, &code, own, true, after);
                return;
            }
            break;
        case RETURNS:
        case ENTERS_KERNEL:
            i = MOST_MOVED;
            break;
        default:
            break;
        }
        at += code.length;
        if (at == after->rip)
            return;
    }
    trouble(t, "nothing leads from here to where the stub led", t->way.from);
}

/* --- steps
 * ------------------------------------------------------------------------------------------- */

static void end_signal(struct exact_truth *t)
{
    for (size_t i = t->frames.count; i-- > 1;) {
        if (t->frames.items[i].is_signal) {
            t->way = t->frames.items[i].interrupted;
            t->frames.count = i;
            return;
        }
    }
}

static void returned(struct exact_truth *t, const struct user_regs_struct *before,
                     const struct user_regs_struct *after)
{
    if (top(t)->is_moved && after->rip == top(t)->ret)
        t->frames.count--;
    else if (before->rsp == top(t)->slot && after->rip != top(t)->ret)
        trouble(t, "a return to elsewhere", after->rip);
}

/*
 * The stack pointer is above the return address of a function that goes on: it has been moved up
 * to its caller's frame. (Above that, this is longjmp, just before it jumps.)
 */
static void find_moved(struct exact_truth *t, const struct code *was, const struct code *is,
                       uint64_t rsp)
{
    struct frame *f = top(t);
    if (was->transfer != GOES_ON || was->is_changed || !is->function ||
        was->function != is->function || t->frames.count < 2 || f->slot >= rsp || f[-1].slot < rsp)
        return;
    f->is_moved = true;
    f->was_edited = false;
    f->slot = f[-1].slot - 1;
}

static void step_outside(struct exact_truth *t, const struct code *was, const struct code *is,
                         const struct user_regs_struct *before,
                         const struct user_regs_struct *after)
{
    if (was->is_changed && was->kind == CODE_PROGRAM) {
        begin_way(t, was->pc);
        if (is->kind != CODE_STUB && was->may_stay)
            end_way(t, after);
        return;
    }
    if (t->pending.is_on) {
        if (is->in_plt)
            return;
        t->pending.is_on = false;
        if (is->kind == CODE_LINKER && after->rsp != t->pending.slot) /* with two words for it */
            enter_binder(t, &t->pending, after->rip);
        else
            enter(t, &t->pending, after->rip);
        return;
    }
    if (was->transfer == CALLS && after->rsp == before->rsp - 8)
        called(t, was, 0, false, after);
    else if (was->transfer == JUMPS || was->transfer == JUMPS_OR_GOES_ON)
        jumped(t, was, 0, false, after);
    else if (was->transfer == RETURNS)
        returned(t, before, after);
    else if (was->transfer == ENTERS_KERNEL && before->rax == SYS_rt_sigreturn)
        end_signal(t);
}

void exact_truth_step(struct exact_truth *t, const struct user_regs_struct *before,
                      const struct user_regs_struct *after)
{
    struct code was = code_at(t->code, before->rip), is = code_at(t->code, after->rip);
    if (t->way.is_on) {
        if (was.kind == CODE_STUB && is.kind != CODE_STUB && was.transfer != CALLS)
            end_way(t, after);
        return;
    }
    step_outside(t, &was, &is, before, after);
    if (t->way.is_on)
        return;
    find_moved(t, &was, &is, after->rsp);
    drop_dead(t, after->rsp);
}

void exact_truth_signal(struct exact_truth *t, const struct user_regs_struct *before,
                        const struct user_regs_struct *after)
{
    uint64_t restorer = 0, pc = before->rip;
    read_word(t->pid, after->rsp, &restorer);
    read_word(t->pid, after->rsp + SIGNAL_RIP, &pc);
    struct frame kernel = {.slot = after->rsp + 8, .ret = pc, .is_signal = true};
    uint64_t function = function_at(t, restorer - 1);
    const struct frame caller = *shown_caller(t, t->frames.count, &pc);
    kernel.interrupted = t->way;
    t->way.is_on = false;
    kernel.context = context_of(&t->contexts, caller.context, pc, function, false);
    kernel.as_walked = context_of(&t->contexts, caller.as_walked, pc, function, false);
    vec_push(&t->frames, kernel);
    struct arrival a = {.site = pc, .ret = restorer, .slot = after->rsp};
    uint64_t handler = function_at(t, after->rip);
    enter_by_call(t, &a, handler, code_at(t->code, after->rip).kind == CODE_OURS);
}

bool exact_truth_is_settled(const struct exact_truth *t)
{
    if (t->way.is_on || t->pending.is_on)
        return false;
    for (size_t i = 0; i < t->frames.count; i++)
        if (t->frames.items[i].is_binder || t->frames.items[i].interrupted.is_on)
            return false;
    return true;
}

/* --- the beginning
 * ----------------------------------------------------------------------------------- */

/*
 * The tail jumps that led to a frame before the window began are not known, but by the engine: it
 * is taken at its word for these if all else is right.
 */
static bool tails_of(struct exact_truth *t, uint32_t plain, uint64_t record, uint32_t *out)
{
    uint32_t said = engine_context(t->engine, &t->contexts, record);
    const struct context *all = t->contexts.items.items;
    const struct context *called = &all[context_called(&t->contexts, said)];
    *out = said;
    return called->parent == all[plain].parent && called->site == all[plain].site &&
           all[said].function == all[plain].function;
}

static void push_initial(struct exact_truth *t, uint64_t slot, uint64_t ret, uint64_t pc)
{
    struct frame f = {.slot = slot, .ret = ret};
    uint64_t site = ret;
    const struct frame *caller = shown_caller(t, t->frames.count, &site);
    uint32_t plain = context_of(&t->contexts, caller->context, site, function_at(t, pc), false);
    uint64_t record = engine_record(t->engine, slot, ret);
    f.context = plain;
    if (record && !tails_of(t, plain, record, &f.context)) {
        struct arrival a = {.site = pc};
        t->at_site[SAYS_WRONG]++;
        show(t, "at the window's start", &a, plain, record);
        f.context = plain;
    }
    f.as_walked = f.context;
    f.is_ours = code_at(t->code, pc).kind == CODE_OURS;
    vec_push(&t->frames, f);
}

int exact_truth_begin(struct exact_truth *t, const struct user_regs_struct *regs,
                      struct ct_error *err)
{
    struct truth stack = {0};
    truth_begin(&stack, 0, UINT64_MAX);
    int result = window_stack(&stack, t->pid, regs, err);
    if (result == CT_OK) {
        contexts_begin(&t->contexts);
        const struct truth_entry *all = stack.entries.items;
        size_t count = stack.entries.count;
        uint64_t first = count ? all[0].pc - 1 : regs->rip;
        uint32_t context = context_of(&t->contexts, 0, 0, function_at(t, first), false);
        vec_push(&t->frames,
                 (struct frame){.slot = outermost_slot, .context = context, .as_walked = context});
        for (size_t i = 0; i < count; i++)
            push_initial(t, all[i].slot, all[i].pc, i + 1 < count ? all[i + 1].pc - 1 : regs->rip);
    }
    truth_free(&stack);
    return result;
}

void exact_truth_free(struct exact_truth *t)
{
    contexts_free(&t->contexts);
    vec_free(&t->frames);
}
