#include "step_truth.h"

#include "step_memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

/* The kernel's signal frame: the return address, then the ucontext. */
enum {
    FRAME_STACK_SP = 8 + 16,
    FRAME_STACK_SIZE = 8 + 32,
    FRAME_RSP = 8 + 40 + 15 * 8,
    FRAME_RIP = 8 + 40 + 16 * 8,
    FRAME_BYTES = FRAME_RIP + 8,
    SYSCALL_INSN_BYTES = 2,
};

void truth_begin(struct truth *truth, uint64_t start, uint64_t end)
{
    struct truth_segment main_stack = {.first = 0, .start = start, .end = end};
    truth->entries.count = 0;
    truth->segments.count = 0;
    truth->initial_rsp = UINT64_MAX;
    truth->is_lost = false;
    vec_push(&truth->segments, main_stack);
}

void truth_copy(struct truth *to, const struct truth *from)
{
    *to = (struct truth){.initial_rsp = from->initial_rsp};
    for (size_t i = 0; i < from->entries.count; i++)
        vec_push(&to->entries, from->entries.items[i]);
    for (size_t i = 0; i < from->segments.count; i++)
        vec_push(&to->segments, from->segments.items[i]);
}

void truth_free(struct truth *truth)
{
    vec_free(&truth->entries);
    vec_free(&truth->segments);
}

struct truth_entry *truth_top(struct truth *truth)
{
    size_t first = truth->segments.items[truth->segments.count - 1].first;
    return truth->entries.count > first ? &truth->entries.items[truth->entries.count - 1] : NULL;
}

static void cut_to(struct truth *truth, size_t count)
{
    truth->entries.count = count;
    while (truth->segments.count > 1 &&
           truth->segments.items[truth->segments.count - 1].first >= count)
        truth->segments.count--;
}

static void note_trouble(struct truth *truth, const char *what, uint64_t slot, uint64_t expected,
                         uint64_t actual)
{
    if (truth->trouble++ == 0)
        snprintf(truth->trouble_text, sizeof truth->trouble_text,
                 "%s: slot %#lx, recorded %#lx, returned to %#lx", what, slot, expected, actual);
}

static void drop_dead(struct truth *truth, uint64_t rsp)
{
    while (truth->segments.count > 1) {
        struct truth_segment top = truth->segments.items[truth->segments.count - 1];
        if (rsp >= top.start && rsp <= top.end)
            break;
        cut_to(truth, top.first);
    }
    const struct truth_segment *stack = &truth->segments.items[truth->segments.count - 1];
    if (truth->segments.count == 1 && rsp - stack->start > stack->end - stack->start) {
        note_trouble(truth, "the program went to a stack that is not known", rsp, 0, 0);
        truth->is_lost = true;
        return;
    }
    struct truth_entry *top;
    while ((top = truth_top(truth)) && top->slot < rsp) {
        if (top->in_register && rsp == top->slot + 8)
            break;
        cut_to(truth, truth->entries.count - 1);
    }
}

static void check_return(struct truth *truth, uint64_t slot, uint64_t target)
{
    const struct truth_entry *top = truth_top(truth);
    if (top && top->slot == slot && top->pc == target)
        return;
    if (top && top->slot == slot) {
        truth->redirected++;
        if (top->is_initial)
            note_trouble(truth, "a frame of the initial stack returned elsewhere", slot, top->pc,
                         target);
        return;
    }
    truth->ret_jumps++;
    if (slot >= truth->initial_rsp)
        note_trouble(truth, "a frame is missing from the initial stack", slot, 0, target);
}

/* rt_sigreturn: the innermost signal is over, with all that its handler still had on the stack. */
static void end_signal(struct truth *truth)
{
    for (size_t i = truth->entries.count; i-- > 0;) {
        if (truth->entries.items[i].is_signal) {
            cut_to(truth, i);
            return;
        }
    }
}

/* vfork pops its return address, keeps it in a register meanwhile, and pushes it back. */
static void follow_popped(struct truth *truth, pid_t pid, const struct insn *insn,
                          const struct user_regs_struct *before,
                          const struct user_regs_struct *after)
{
    struct truth_entry *top = truth_top(truth);
    if (!top || top->is_signal)
        return;
    if (top->in_register) {
        if (insn->class == INSN_PUSH && after->rsp == top->slot)
            top->in_register = false;
        else if (after->rip == top->pc)
            cut_to(truth, truth->entries.count - 1);
    } else if (insn->class == INSN_POP_REG && before->rsp == top->slot &&
               after->rsp == top->slot + 8) {
        uint64_t popped;
        top->in_register = read_word(pid, top->slot, &popped) && popped == top->pc;
    }
}

void truth_step(struct truth *truth, pid_t pid, const struct insn *insn,
                const struct user_regs_struct *before, const struct user_regs_struct *after)
{
    if (insn->class == INSN_SYSCALL && before->rax == SYS_rt_sigreturn) {
        end_signal(truth);
        drop_dead(truth, after->rsp);
        return;
    }
    follow_popped(truth, pid, insn, before, after);
    if (insn->class == INSN_RET && after->rsp > before->rsp)
        check_return(truth, before->rsp, after->rip);
    drop_dead(truth, after->rsp);
    uint64_t next = insn->pc + insn->length;
    if (insn->class == INSN_CALL && after->rsp == before->rsp - 8 && after->rip != next)
        vec_push(&truth->entries,
                 (struct truth_entry){.slot = after->rsp, .pc = next, .at_call = *before});
}

bool truth_signal(struct truth *truth, pid_t pid, const struct user_regs_struct *interrupted,
                  const struct user_regs_struct *handler)
{
    uint8_t frame[FRAME_BYTES];
    uint64_t ra, pc, rsp, stack, stack_size;
    if (read_tracee(pid, handler->rsp, frame, sizeof frame) != sizeof frame)
        return false;
    memcpy(&ra, frame, 8);
    memcpy(&stack, frame + FRAME_STACK_SP, 8);
    memcpy(&stack_size, frame + FRAME_STACK_SIZE, 8);
    memcpy(&rsp, frame + FRAME_RSP, 8);
    memcpy(&pc, frame + FRAME_RIP, 8);
    /* A system call that is to be restarted is interrupted before its instruction, not behind. */
    bool same_pc = pc == interrupted->rip || pc == interrupted->rip - SYSCALL_INSN_BYTES;
    if (!same_pc || rsp != interrupted->rsp || handler->rsp == rsp)
        return false;

    bool to_other_stack = handler->rsp - stack < stack_size && rsp - stack >= stack_size;
    if (to_other_stack) {
        struct truth_segment other = {truth->entries.count, stack, stack + stack_size};
        vec_push(&truth->segments, other);
    }
    struct truth_entry signal = {.slot = handler->rsp + 8,
                                 .pc = pc,
                                 .saved_pc_at = handler->rsp + FRAME_RIP,
                                 .is_signal = true};
    struct truth_entry restorer = {.slot = handler->rsp, .pc = ra};
    vec_push(&truth->entries, signal);
    vec_push(&truth->entries, restorer);
    return true;
}

bool truth_refresh_signals(struct truth *truth, pid_t pid)
{
    bool changed = false;
    for (size_t i = 0; i < truth->entries.count; i++) {
        struct truth_entry *entry = &truth->entries.items[i];
        uint64_t pc;
        if (entry->is_signal && entry->saved_pc_at && read_word(pid, entry->saved_pc_at, &pc) &&
            pc != entry->pc) {
            entry->pc = pc;
            changed = true;
        }
    }
    return changed;
}

void truth_push_initial(struct truth *truth, struct truth_entry entry)
{
    entry.is_initial = true;
    vec_push(&truth->entries, entry);
}
