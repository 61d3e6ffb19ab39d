#include "step_window.h"

#include "step_memory.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { DWARF_RSP = 7, START_BYTES = 64 };

struct found_frame {
    uint64_t pc, sp;
    bool is_pc;
};

typedef VEC(struct found_frame) frame_list;

static int collect(Dwfl_Frame *state, void *argument)
{
    frame_list *frames = argument;
    struct found_frame frame;
    Dwarf_Addr pc;
    Dwarf_Word sp;
    if (!dwfl_frame_pc(state, &pc, &frame.is_pc) || dwfl_frame_reg(state, DWARF_RSP, &sp) != 0)
        return DWARF_CB_ABORT;
    frame.pc = pc;
    frame.sp = sp;
    vec_push(frames, frame);
    return DWARF_CB_OK;
}

/* Debug files would only add line numbers; the unwind information is in the modules. */
static int no_debug_file(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                         const char *file, const char *link, GElf_Word crc, char **out)
{
    (void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)out;
    return -1;
}

static int walk_with_dwfl(pid_t pid, frame_list *frames, struct ct_error *err)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = no_debug_file};
    Dwfl *dwfl = dwfl_begin(&callbacks);
    if (!dwfl)
        return ct_fail(err, "libdwfl: %s", dwfl_errmsg(-1));
    const char *failed = NULL;
    if (dwfl_linux_proc_report(dwfl, pid) != 0 || dwfl_report_end(dwfl, NULL, NULL) != 0)
        failed = "the process's modules cannot be read";
    else if (dwfl_linux_proc_attach(dwfl, pid, true) != 0)
        failed = "the process cannot be examined";
    else if (dwfl_getthread_frames(dwfl, pid, collect, frames) != 0)
        failed = "the walk ended early";
    int result = CT_OK;
    if (failed) {
        const char *why = dwfl_errmsg(-1);
        result = ct_fail(err, "libdwfl: %s: %s", failed, why ? why : "no reason given");
    }
    dwfl_end(dwfl);
    return result;
}

uint64_t window_entry_point(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/auxv", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_auxv_t pair;
    uint64_t entry = 0;
    while (fd >= 0 && read(fd, &pair, sizeof pair) == sizeof pair && pair.a_type != AT_NULL) {
        if (pair.a_type == AT_ENTRY)
            entry = pair.a_un.a_val;
    }
    if (fd >= 0)
        close(fd);
    return entry;
}

static int check_frames(const frame_list *frames, pid_t pid, const struct user_regs_struct *regs,
                        struct ct_error *err)
{
    if (frames->count == 0 || frames->items[0].pc != regs->rip || frames->items[0].sp != regs->rsp)
        return ct_fail(err, "libdwfl: the first frame is not the interrupted one");
    uint64_t last = frames->items[frames->count - 1].pc;
    if (last - window_entry_point(pid) >= START_BYTES)
        return ct_fail(err, "libdwfl: the outermost frame is %#lx, not the program's start", last);
    /* Upwards only: an alternate signal stack would need segments, and no window starts on one. */
    for (size_t i = 1; i < frames->count; i++) {
        const struct found_frame *frame = &frames->items[i];
        uint64_t word = 0;
        if (frame->sp <= frames->items[i - 1].sp)
            return ct_fail(err, "libdwfl: frame %zu does not lie above its callee", i);
        if (!frame->is_pc && (!read_word(pid, frame->sp - 8, &word) || word != frame->pc))
            return ct_fail(err, "libdwfl: frame %zu: no return address %#lx at %#lx", i, frame->pc,
                           frame->sp - 8);
    }
    return CT_OK;
}

int window_stack(struct truth *truth, pid_t pid, const struct user_regs_struct *regs,
                 struct ct_error *err)
{
    frame_list frames = {0};
    int result = walk_with_dwfl(pid, &frames, err);
    if (result == CT_OK)
        result = check_frames(&frames, pid, regs, err);
    if (result == CT_OK) {
        truth->initial_rsp = regs->rsp;
        for (size_t i = frames.count - 1; i > 0; i--) {
            const struct found_frame *frame = &frames.items[i];
            /* The frame inside an interrupted one is the kernel's: its stack pointer is the slot.
             */
            uint64_t slot = frame->is_pc ? frames.items[i - 1].sp : frame->sp - 8;
            truth_push_initial(
                truth,
                (struct truth_entry){.slot = slot, .pc = frame->pc, .is_signal = frame->is_pc});
        }
    }
    vec_free(&frames);
    return result;
}
