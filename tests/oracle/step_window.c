#include "step_window.h"

#include "step_memory.h"

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DWARF_RSP = 7, START_BYTES = 64, GOROUTINE_BYTES = 4096 };

struct found_frame {
    uint64_t pc, sp;
    bool is_pc;
};

typedef struct {
    VEC(struct found_frame) list;
    bool is_goroutine; /* its stack begins with goexit, which nothing has called */
} frame_list;

static bool is_goexit(Dwfl_Frame *state, uint64_t pc)
{
    Dwfl_Module *module = dwfl_addrmodule(dwfl_thread_dwfl(dwfl_frame_thread(state)), pc - 1);
    const char *name = module ? dwfl_module_addrname(module, pc - 1) : NULL;
    return name && strncmp(name, "runtime.goexit", 14) == 0 && (!name[14] || name[14] == '.');
}

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
    vec_push(&frames->list, frame);
    frames->is_goroutine = is_goexit(state, pc);
    return frames->is_goroutine ? DWARF_CB_ABORT : DWARF_CB_OK;
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
    else if (dwfl_getthread_frames(dwfl, pid, collect, frames) != 0 && !frames->is_goroutine)
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

static int check_frames(const frame_list *found, pid_t pid, const struct user_regs_struct *regs,
                        struct ct_error *err)
{
    const struct found_frame *items = found->list.items;
    const size_t count = found->list.count;
    if (count == 0 || items[0].pc != regs->rip || items[0].sp != regs->rsp)
        return ct_fail(err, "libdwfl: the first frame is not the interrupted one");
    uint64_t last = items[count - 1].pc;
    if (!found->is_goroutine && last - window_entry_point(pid) >= START_BYTES)
        return ct_fail(err, "libdwfl: the outermost frame is %#lx, not the program's start", last);
    /* Upwards only: an alternate signal stack would need segments, and no window starts on one. */
    for (size_t i = 1; i < count; i++) {
        const struct found_frame *frame = &items[i];
        uint64_t word = 0;
        if (frame->sp <= items[i - 1].sp)
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
        if (frames.is_goroutine)
            truth->segments.items[0] =
                (struct truth_segment){.start = regs->rsp - GOROUTINE_BYTES,
                                       .end = frames.list.items[frames.list.count - 1].sp + 8};
        for (size_t i = frames.list.count - 1; i > 0; i--) {
            const struct found_frame *frame = &frames.list.items[i];
            /* The frame inside an interrupted one is the kernel's: its stack pointer is the slot.
             */
            uint64_t slot = frame->is_pc ? frames.list.items[i - 1].sp : frame->sp - 8;
            truth_push_initial(
                truth,
                (struct truth_entry){.slot = slot, .pc = frame->pc, .is_signal = frame->is_pc});
        }
    }
    vec_free(&frames.list);
    return result;
}
