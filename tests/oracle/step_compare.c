#include "step_compare.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_FRAMES = 1 << 17,
    HELD_STEPS = 64, /* longjmp's own code, from where its description changes to the jump, is 20 */
};

void comparer_begin(struct comparer *comparer, const char *program,
                    const struct step_modules *modules)
{
    *comparer = (struct comparer){.program = program, .modules = modules, .break_every = 1000};
    comparer->frames = must_calloc(MAX_FRAMES, sizeof *comparer->frames);
    comparer->spare_frames = must_calloc(MAX_FRAMES, sizeof *comparer->frames);
    comparer->right_at = UINT64_MAX;
    comparer->last_stack = must_calloc(MAX_FRAMES, sizeof *comparer->last_stack);
    comparer->stack.room = MAX_FRAMES;
    comparer->stack.past = must_calloc(MAX_FRAMES, sizeof *comparer->stack.past);
    comparer->stack.frames = must_calloc(MAX_FRAMES, sizeof *comparer->stack.frames);
    comparer->stack.fresh = must_calloc(MAX_FRAMES, sizeof *comparer->stack.fresh);
}

static void drop_held(struct held_walk *held)
{
    if (!held->active)
        return;
    held->active = false;
    finding_free(&held->finding);
    free(held->text);
    held->text = NULL;
}

void comparer_free(struct comparer *comparer)
{
    drop_held(&comparer->held);
    vec_free(&comparer->held.frames);
    findings_free(&comparer->findings);
    free(comparer->frames);
    free(comparer->spare_frames);
    free(comparer->last_stack);
    free(comparer->stack.past);
    free(comparer->stack.frames);
    free(comparer->stack.fresh);
}

static struct walk_registers registers_of(const struct user_regs_struct *regs)
{
    struct walk_registers out;
    out.value[X86_RAX] = regs->rax;
    out.value[X86_RDX] = regs->rdx;
    out.value[X86_RCX] = regs->rcx;
    out.value[X86_RBX] = regs->rbx;
    out.value[X86_RSI] = regs->rsi;
    out.value[X86_RDI] = regs->rdi;
    out.value[X86_RBP] = regs->rbp;
    out.value[X86_RSP] = regs->rsp;
    out.value[X86_R8] = regs->r8;
    out.value[X86_R9] = regs->r9;
    out.value[X86_R10] = regs->r10;
    out.value[X86_R11] = regs->r11;
    out.value[X86_R12] = regs->r12;
    out.value[X86_R13] = regs->r13;
    out.value[X86_R14] = regs->r14;
    out.value[X86_R15] = regs->r15;
    out.value[X86_RIP] = regs->rip;
    return out;
}

/* A slot of 0 is one that the walker does not know; the truth's is 0 where there is none. */
static bool same_place(const struct walk_frame *expected, const struct walk_frame *walked)
{
    return expected->pc == walked->pc &&
           (walked->slot == expected->slot || walked->slot == 0 || expected->slot == 0);
}

/*
 * What a signal handler returns to has not called it: where it begins, and no byte before it,
 * counts. Go's walks say so; glibc's description begins a byte earlier, for those who look there.
 */
static bool same_frame(const struct comparison *c, uint32_t i)
{
    struct walk_frame expected, caller;
    const struct walk_frame *walked = &c->frames[i];
    if (!true_frame(c, i, &expected) || !same_place(&expected, walked))
        return false;
    return ((expected.flags ^ walked->flags) & FRAME_IS_PC) == 0 ||
           ((walked->flags & FRAME_IS_PC) && true_frame(c, i + 1, &caller) &&
            (caller.flags & FRAME_IS_PC));
}

/* Go says that its stacks begin with these, though clone or rt0_go has called mstart. */
static bool begins_a_stack(const struct comparison *c)
{
    const struct walk_frame *last = &c->frames[c->count - 1];
    const char *function =
        c->count ? modules_place(c->modules, last->pc, !(last->flags & FRAME_IS_PC)).function : "";
    return strncmp(function, "runtime.mstart", 14) == 0 && (!function[14] || function[14] == '.');
}

/* Sets how many frames agree, and says whether the walk is right. */
static bool agrees(struct comparison *c)
{
    c->good_count = 0;
    while (c->good_count < c->count && same_frame(c, c->good_count))
        c->good_count++;
    return c->good_count == c->count && c->end == WALK_COMPLETE &&
           (c->count == c->truth->entries.count + 1 || begins_a_stack(c));
}

static void settle(struct comparer *comparer, enum finding_kind kind)
{
    struct held_walk *held = &comparer->held;
    held->finding.kind = kind;
    uint64_t known = comparer->findings.items.count;
    findings_add_more(&comparer->findings, &held->finding, held->count);
    if (kind == FOUND_WRONG && comparer->findings.items.count > known)
        fputs(held->text, stdout);
    drop_held(held);
}

void compare_end(struct comparer *comparer)
{
    if (comparer->held.active)
        settle(comparer, FOUND_WRONG);
}

void compare_settle(struct comparer *comparer, const struct truth *truth, const struct insn *insn,
                    const struct user_regs_struct *regs)
{
    struct held_walk *held = &comparer->held;
    if (!held->active)
        return;
    if (held->frames.items[1].pc == regs->rip) {
        struct comparison there = {.regs = regs,
                                   .truth = truth,
                                   .frames = held->frames.items + 1,
                                   .count = (uint32_t)held->frames.count - 1,
                                   .end = WALK_COMPLETE};
        /* What was a return address then is the pc now. */
        held->frames.items[1].flags |= FRAME_IS_PC;
        settle(comparer, agrees(&there) ? FOUND_AHEAD : FOUND_WRONG);
    } else if (insn->class == INSN_CALL || insn->class == INSN_RET || insn->class == INSN_SYSCALL ||
               ++held->steps > HELD_STEPS) {
        settle(comparer, FOUND_WRONG);
    }
}

static bool says_the_same(const struct held_walk *held, const struct comparison *c)
{
    if (held->frames.count != c->count)
        return false;
    for (size_t i = 1; i < c->count; i++) {
        if (held->frames.items[i].pc != c->frames[i].pc)
            return false;
    }
    return true;
}

static void hold_back(struct comparer *comparer, const struct comparison *c)
{
    struct held_walk *held = &comparer->held;
    if (held->active && says_the_same(held, c)) {
        held->count++;
        return;
    }
    compare_end(comparer);
    held->active = true;
    held->count = 1;
    held->steps = 0;
    held->frames.count = 0;
    for (size_t i = 0; i < c->count; i++)
        vec_push(&held->frames, c->frames[i]);
    held->finding = finding_make(FOUND_WRONG, c);
    size_t size;
    FILE *out = open_memstream(&held->text, &size);
    if (out) {
        report_wrong(out, c);
        fclose(out);
    }
}

/* Only a walk that is complete and differs already in the caller can have named another caller. */
static bool may_be_ahead(const struct comparison *c)
{
    struct walk_frame caller = {0};
    true_frame(c, 1, &caller);
    return c->end == WALK_COMPLETE && c->count > 1 && c->frames[0].pc == c->regs->rip &&
           c->frames[1].pc != caller.pc;
}

static struct comparison walk(struct comparer *comparer, const struct truth *truth,
                              struct stack_mirror *mirror, const struct user_regs_struct *regs)
{
    struct walk_modules modules = modules_table(comparer->modules);
    struct walk_registers registers = registers_of(regs);
    struct walk_memory memory = mirror_refresh(mirror, regs->rsp), untouched = memory;
    struct walk_result walked =
        walk_frames(&modules, &registers, &memory, comparer->frames, MAX_FRAMES - 1);
    return (struct comparison){.pid = mirror->pid,
                               .program = comparer->program,
                               .modules = comparer->modules,
                               .regs = regs,
                               .truth = truth,
                               .memory = untouched,
                               .frames = comparer->frames,
                               .count = walked.count,
                               .end = walked.end};
}

static bool identical(const struct walk_frame *a, const struct walk_frame *b)
{
    return a->pc == b->pc && a->slot == b->slot && a->rbp == b->rbp && a->module == b->module &&
           a->flags == b->flags;
}

static void note_difference(struct comparer *comparer, const struct comparison *plain,
                            const char *what, uint32_t count, enum walk_end end, uint32_t index)
{
    if (!findings_add(&comparer->findings, FOUND_FAST, plain))
        return;
    printf("%s: %s, step %lu: %u frames, %s; the first difference is frame %u\n", what,
           comparer->program, plain->step, count, walk_end_names[end], index);
    report_wrong(stdout, plain);
}

static void check_cached(struct comparer *comparer, const struct comparison *plain,
                         const struct walk_registers *registers, struct walk_memory memory,
                         bool lie)
{
    struct walk_modules modules = modules_table(comparer->modules);
    struct walk_frame *frames = comparer->spare_frames;
    struct walk_result result =
        walk_frames_cached(&comparer->cache, &modules, registers, &memory, frames, MAX_FRAMES - 1);
    if (lie)
        frames[result.count - 1].pc++;
    uint32_t same = 0;
    while (same < result.count && same < plain->count &&
           identical(&frames[same], &plain->frames[same]))
        same++;
    if (same != result.count || same != plain->count || result.end != plain->end)
        note_difference(comparer, plain, "the cached walk differs from this plain one",
                        result.count, result.end, same);
}

/* The stack that is remembered is outermost first; what it says it kept must be as it was. */
static void check_remembered(struct comparer *comparer, const struct comparison *plain,
                             const struct walk_registers *registers, struct walk_memory memory)
{
    struct walk_modules modules = modules_table(comparer->modules);
    struct thread_stack *stack = &comparer->stack;
    stack_walk(stack, &modules, registers, &memory, (struct stack_mark){0});
    uint32_t same = 0, kept = 0;
    while (same < stack->count && same < plain->count &&
           identical(&stack->frames[stack->count - 1 - same], &plain->frames[same]))
        same++;
    if (same != stack->count || same != plain->count || stack->end != plain->end)
        note_difference(comparer, plain, "the remembered walk differs from this plain one",
                        stack->count, stack->end, same);
    while (kept < stack->kept && kept < comparer->last_stack_count &&
           comparer->last_stack[kept].pc == stack->frames[kept].pc &&
           comparer->last_stack[kept].slot == stack->frames[kept].slot)
        kept++;
    if (kept != stack->kept)
        note_difference(comparer, plain, "the remembered walk says that it kept other frames",
                        stack->kept, stack->end, kept);
    comparer->joined += stack->kept > 0;
    comparer->last_stack_count = stack->count;
    for (uint32_t i = kept; i < stack->count; i++)
        comparer->last_stack[i] = stack->frames[i];
}

/* Where the walk leaves the truth, the slot is right, but the program has written to it. */
static bool return_replaced(const struct comparison *c)
{
    size_t index = c->good_count, count = c->truth->entries.count;
    if (index == 0 || index >= c->count || index > count)
        return false;
    const struct truth_entry *entry = &c->truth->entries.items[count - index];
    uint64_t now;
    return !entry->is_signal && c->frames[index - 1].slot == entry->slot &&
           read_word(c->pid, entry->slot, &now) && now != entry->pc && c->frames[index].pc == now;
}

/*
 * A walk from the innermost call instruction, with the registers of that moment, was right then. If
 * it is not right now, memory of its callers' frames has been overwritten since.
 */
static bool saves_replaced(struct comparer *comparer, struct truth *truth,
                           struct stack_mirror *mirror)
{
    const struct truth_entry *top = truth_top(truth);
    if (!top || !top->was_right)
        return false;
    struct walk_frame *kept = comparer->frames;
    comparer->frames = comparer->spare_frames;
    struct truth caller = *truth; /* shares the entries, and only reads them */
    caller.entries.count--;
    struct comparison c = walk(comparer, &caller, mirror, &top->at_call);
    comparer->frames = kept;
    return !agrees(&c);
}

static void lie_about_frames(const struct comparer *comparer, struct comparison *c)
{
    struct walk_frame *last = &comparer->frames[c->count - 1];
    switch (comparer->break_kind) {
    case BREAK_PC:
        last->pc++;
        break;
    case BREAK_SLOT:
        comparer->frames[0].slot += 8;
        break;
    case BREAK_SHORT:
        c->count--;
        break;
    case BREAK_SKIP: /* the caller is missing, as if its callee had been inlined in its caller */
        if (c->count > 2) {
            comparer->frames[0].slot = comparer->frames[1].slot;
            memmove(&comparer->frames[1], &comparer->frames[2],
                    (c->count - 2) * sizeof *comparer->frames);
            c->count--;
        }
        break;
    case BREAK_LONG:
        comparer->frames[c->count++] = *last;
        break;
    default:
        break;
    }
}

void compare_walk(struct comparer *comparer, struct truth *truth, struct stack_mirror *mirror,
                  const struct user_regs_struct *regs, uint64_t step)
{
    bool lie = comparer->break_kind && comparer->compared % comparer->break_every == 0;
    struct user_regs_struct told = *regs;
    if (lie && comparer->break_kind == BREAK_RBP)
        told.rbp += 16;
    struct comparison c = walk(comparer, truth, mirror, &told);
    c.step = step;
    struct walk_registers registers = registers_of(&told);
    check_cached(comparer, &c, &registers, mirror_again(mirror, c.memory),
                 lie && comparer->break_kind == BREAK_FAST);
    check_remembered(comparer, &c, &registers, mirror_again(mirror, c.memory));
    if (lie && c.count > 0)
        lie_about_frames(comparer, &c);
    comparer->compared++;
    if (agrees(&c) || (truth_refresh_signals(truth, mirror->pid) && agrees(&c))) {
        comparer->right_at = step;
        return;
    }
    if (return_replaced(&c) || saves_replaced(comparer, truth, mirror)) {
        findings_add(&comparer->findings, FOUND_REPLACED, &c);
    } else if (c.good_count == c.count && c.count > 0 && c.end != WALK_COMPLETE) {
        findings_add(&comparer->findings, FOUND_INCOMPLETE, &c);
    } else if (may_be_ahead(&c)) {
        hold_back(comparer, &c);
    } else if (findings_add(&comparer->findings, FOUND_WRONG, &c)) {
        report_wrong(stdout, &c);
    }
}
