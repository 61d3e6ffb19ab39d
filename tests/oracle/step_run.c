#include "step_run.h"

#include "step_driver.h"
#include "step_window.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
    MIRROR_ABOVE_BYTES = 256, /* of the argument block: always there, never walked */
    MAIN_STACK_BYTES = 128 << 20,
    WINDOW_TRIES = 200, /* instructions to go on where libdwfl does not know the way */
};

struct thread {
    struct tracee tracee;
    struct truth truth;
    bool is_vfork_child;
};

static bool at_limit(const struct run *run)
{
    return (run->options.step_limit && run->steps >= run->options.step_limit) ||
           (run->options.max_wrong && run->comparer.findings.totals[FOUND_WRONG] +
                                              run->comparer.findings.totals[FOUND_FAST] >=
                                          run->options.max_wrong);
}

/* Whether a system call with these arguments can change which code lies where. */
static bool may_change_modules(const struct run *run, const struct user_regs_struct *regs)
{
    switch (regs->rax) {
    case SYS_mmap:
        return !(regs->r10 & MAP_ANONYMOUS) || (regs->rdx & PROT_EXEC) ||
               modules_overlap(&run->modules, regs->rdi, regs->rsi);
    case SYS_mprotect:
        return (regs->rdx & PROT_EXEC) || modules_overlap(&run->modules, regs->rdi, regs->rsi);
    case SYS_munmap:
    case SYS_mremap:
        return modules_overlap(&run->modules, regs->rdi, regs->rsi);
    default:
        return false;
    }
}

static int look_again(struct run *run, pid_t pid, struct ct_error *err)
{
    decode_forget(&run->decoded);
    return modules_refresh(&run->modules, pid, err);
}

static void compare_here(struct run *run, struct thread *thread)
{
    if (run->steps >= run->options.skip_steps && run->steps % run->options.every == 0)
        compare_walk(&run->comparer, &thread->truth, &run->mirror, &thread->tracee.regs,
                     run->steps);
}

static void close_truth(struct run *run, struct thread *thread)
{
    struct truth *truth = &thread->truth;
    run->ret_jumps += truth->ret_jumps;
    run->redirected += truth->redirected;
    run->trouble += truth->trouble;
    if (truth->trouble > 0)
        printf("oracle trouble: %s: %s (%" PRIu64 " in all)\n", run->comparer.program,
               truth->trouble_text, truth->trouble);
    truth_free(truth);
}

/* The main stack may grow to its limit; what is mapped beside it is further away. */
static void begin_truth(struct run *run, struct truth *truth)
{
    truth_begin(truth, run->mirror.top - MAIN_STACK_BYTES, run->mirror.top);
}

static int begin_image(struct run *run, struct thread *thread, struct ct_error *err)
{
    mirror_end(&run->mirror);
    mirror_begin(&run->mirror, thread->tracee.pid, thread->tracee.regs.rsp + MIRROR_ABOVE_BYTES);
    begin_truth(run, &thread->truth);
    return look_again(run, thread->tracee.pid, err);
}

static int step_child(struct run *run, struct thread *parent, struct ct_error *err);

/* Executes one instruction and keeps the truth. Sets `stop` to what happened. */
static int advance(struct run *run, struct thread *thread, enum stop_kind *stop,
                   struct ct_error *err)
{
    struct tracee *tracee = &thread->tracee;
    struct user_regs_struct before = tracee->regs;
    struct insn insn = decode_at(&run->decoded, tracee->pid, before.rip);
    bool delivering = tracee->deliver != 0;
    bool dirty = insn.class == INSN_SYSCALL && may_change_modules(run, &before);

    *stop = tracee_step(tracee, insn.class == INSN_INT3 || insn.class == INSN_SYSCALL);
    while (*stop == STOP_VFORK) {
        CT_TRY(step_child(run, thread, err));
        *stop = tracee_step(tracee, true);
    }
    if (*stop == STOP_GONE)
        return CT_OK;
    if (*stop == STOP_EXEC && thread->is_vfork_child) {
        tracee_detach(tracee);
        *stop = STOP_GONE;
        return CT_OK;
    }
    if (*stop == STOP_EXEC) {
        compare_end(&run->comparer);
        return begin_image(run, thread, err);
    }
    bool entered = delivering && truth_signal(&thread->truth, tracee->pid, &before, &tracee->regs);
    bool executed = tracee->regs.rip != before.rip || tracee->regs.rsp != before.rsp;
    if (!entered && executed) {
        truth_step(&thread->truth, tracee->pid, &insn, &before, &tracee->regs);
        struct truth_entry *top = truth_top(&thread->truth);
        if (insn.class == INSN_CALL && top && top->slot == tracee->regs.rsp)
            top->was_right = run->comparer.right_at == run->steps;
    }
    if (dirty)
        CT_TRY(look_again(run, tracee->pid, err));
    if (*stop == STOP_STEP) {
        run->steps++;
        compare_settle(&run->comparer, &thread->truth, &insn, &tracee->regs);
    }
    return CT_OK;
}

/* Steps until the program ends, or count steps have been made, or a limit is reached. */
static int step_on(struct run *run, struct thread *thread, uint64_t count, bool *gone,
                   struct ct_error *err)
{
    uint64_t end = count ? run->steps + count : UINT64_MAX;
    *gone = false;
    while (run->steps < end && !at_limit(run)) {
        enum stop_kind stop;
        CT_TRY(advance(run, thread, &stop, err));
        if (stop == STOP_GONE) {
            *gone = true;
            break;
        }
        if (thread->truth.is_lost)
            break;
        if (stop == STOP_STEP || stop == STOP_EXEC)
            compare_here(run, thread);
    }
    compare_end(&run->comparer);
    return CT_OK;
}

/*
 * The child of vfork runs on its parent's memory while the parent waits: it is stepped, from a copy
 * of the parent's stack, until it becomes another program or exits. With a stack of its own
 * (posix_spawn) it has no callers.
 */
static int step_child(struct run *run, struct thread *parent, struct ct_error *err)
{
    struct thread child = {.is_vfork_child = true};
    CT_TRY(tracee_take_child(&parent->tracee, &child.tracee, err));
    compare_end(&run->comparer);
    if (child.tracee.regs.rsp == parent->tracee.regs.rsp)
        truth_copy(&child.truth, &parent->truth);
    else
        truth_begin(&child.truth, 0, UINT64_MAX);
    int result = CT_OK;
    for (;;) {
        if (at_limit(run)) {
            tracee_kill(&child.tracee);
            break;
        }
        enum stop_kind stop;
        result = advance(run, &child, &stop, err);
        if (result != CT_OK || stop == STOP_GONE)
            break;
        if (stop == STOP_STEP)
            compare_here(run, &child);
    }
    compare_end(&run->comparer);
    close_truth(run, &child);
    return result;
}

/* libdwfl has blind spots too: where it fails, the window begins a few instructions later. */
static int begin_window(struct run *run, struct thread *thread, bool *gone, struct ct_error *err)
{
    struct ct_error why = {{0}};
    *gone = false;
    mirror_forget(&run->mirror);
    CT_TRY(look_again(run, thread->tracee.pid, err));
    for (int i = 0; i < WINDOW_TRIES; i++) {
        thread->truth.trouble = thread->truth.ret_jumps = 0;
        begin_truth(run, &thread->truth);
        if (window_stack(&thread->truth, thread->tracee.pid, &thread->tracee.regs, &why) == CT_OK)
            return CT_OK;
        enum stop_kind stop;
        begin_truth(run, &thread->truth);
        CT_TRY(advance(run, thread, &stop, err));
        if (stop == STOP_GONE) {
            *gone = true;
            return CT_OK;
        }
        run->steps -= stop == STOP_STEP;
    }
    printf("oracle trouble: %s: no initial stack: %s\n", run->comparer.program, why.text);
    run->trouble++;
    return CT_OK;
}

/* Goes to the function named with --from without stepping: what is before it is seldom new. */
static int begin_at(struct run *run, struct thread *thread, const char *function, bool *gone,
                    struct ct_error *err)
{
    uint64_t address = modules_find(&run->modules, thread->tracee.pid, function);
    if (address == 0)
        return ct_fail(err, "%s: has no function %s", run->comparer.program, function);
    if (tracee_run_to(&thread->tracee, address) == STOP_GONE) {
        *gone = true;
        return CT_OK;
    }
    return begin_window(run, thread, gone, err);
}

static int run_windows(struct run *run, struct thread *thread, struct ct_error *err)
{
    uint64_t random = run->options.seed;
    /* The dynamic linker's own start has no unwind information: libdwfl would not know the way. */
    uint64_t entry = window_entry_point(thread->tracee.pid);
    if (entry == 0 || tracee_run_to(&thread->tracee, entry) == STOP_GONE)
        return ct_fail(err, "%s: does not reach its entry point", run->comparer.program);
    for (uint64_t i = 0; i < run->options.windows && !at_limit(run); i++) {
        uint64_t after_ns = driver_random(&random) % (run->options.after_ms * 1000000 + 1);
        bool gone;
        if (tracee_run(&thread->tracee, after_ns) == STOP_GONE)
            return CT_OK;
        CT_TRY(begin_window(run, thread, &gone, err));
        if (!gone && thread->truth.initial_rsp != UINT64_MAX) {
            compare_here(run, thread);
            CT_TRY(step_on(run, thread, run->options.window_steps, &gone, err));
            close_truth(run, thread);
            thread->truth = (struct truth){0};
        }
        if (gone)
            return CT_OK;
    }
    tracee_kill(&thread->tracee);
    return CT_OK;
}

int run_program(struct run *run, struct ct_error *err)
{
    struct thread thread = {0};
    CT_TRY(tracee_launch(&thread.tracee, &run->options.launch, err));
    int result = begin_image(run, &thread, err);
    if (result == CT_OK && run->options.window_steps) {
        result = run_windows(run, &thread, err);
        if (result == CT_OK && run->comparer.compared == 0 && run->options.after_ms > 1) {
            /* It ended before the window began. */
            run->options.after_ms /= 2;
            close_truth(run, &thread);
            return run_program(run, err);
        }
    } else if (result == CT_OK) {
        bool gone = false;
        if (run->options.from)
            result = begin_at(run, &thread, run->options.from, &gone, err);
        if (result == CT_OK && !gone) {
            compare_here(run, &thread);
            result = step_on(run, &thread, 0, &gone, err);
        }
        if (!gone)
            tracee_kill(&thread.tracee);
    }
    close_truth(run, &thread);
    mirror_end(&run->mirror);
    decode_free(&run->decoded);
    return result;
}
