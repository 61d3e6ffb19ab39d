/*
 * One sample: the signal handler, and the event that makes the kernel send the signal.
 *
 * The event is a software task clock that runs in user mode only, so no system call is ever
 * interrupted. Its signal is SIGSTKFLT: nothing on x86-64 uses it, and as an ordinary signal it is
 * pending at most once, so a thread that blocks it can never fill the queue (pitfall 39).
 */
#include "runtime/memory.h"
#include "runtime/thread.h"

#include "runtime/arch/x86_64/syscall.h"
#include "runtime/channel_format.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

enum { RED_ZONE = 128 };

static void take_registers(const ucontext_t *context, struct walk_registers *r)
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
static struct walk_memory memory_for(const struct thread *t, uint64_t sp)
{
    uint64_t low = sp - RED_ZONE;
    if (low >= t->stack_start && sp < t->stack_end)
        return memory_of_this_process(t->stack_start, t->stack_end);
    return memory_of_this_process(0, 0);
}

/* A walk that has read its way from the stack pointer to the thread's first frame knows the stack.
 */
static void learn_stack(struct thread *t, const struct walk_memory *memory)
{
    if (memory->start <= t->first_sp && t->first_sp < memory->end &&
        (memory->start < t->stack_start || !t->stack_end)) {
        t->stack_start = memory->start;
        t->stack_end = memory->end;
    }
}

static uint64_t key_of(const struct walk_modules *modules, const struct walk_frame *f)
{
    uint32_t flags =
        (f->flags & FRAME_IS_PC ? KEY_IS_PC : 0u) | (f->flags & FRAME_GUESSED ? KEY_GUESSED : 0u);
    if (f->module == UINT32_MAX)
        return KEY_MAKE(f->pc >> 32 & 0xffffff, flags | KEY_ADDRESS, f->pc);
    return KEY_MAKE(modules_id(modules, f->module), flags, f->pc - modules->items[f->module].base);
}

/* The node of the walked stack; frames that were there before keep their nodes. 0: no room. */
static uint32_t node_of_stack(struct thread *t, const struct walk_modules *modules)
{
    const struct thread_stack *s = &t->stack;
    uint32_t node = t->record->root;
    if (s->end != WALK_COMPLETE)
        node = tree_child(&t->tree, node, KEY_MAKE(0, KEY_GAP, s->end));
    else if (s->kept)
        node = t->nodes[s->kept - 1];
    for (uint32_t i = s->kept; i < s->count && node; i++) {
        /* Our own functions that stand in for libc's are nobody's business. */
        if (!modules_is_own(modules, s->frames[i].module))
            node = tree_child(&t->tree, node, key_of(modules, &s->frames[i]));
        t->nodes[i] = node;
    }
    return node;
}

static void verify(struct thread *t, const struct walk_modules *modules,
                   const struct walk_registers *r, struct walk_memory memory)
{
    /* The slow walker looks everything up in the tables; its frames are the other way round. */
    struct walk_frame *frames = t->stack.fresh;
    struct walk_result plain = walk_frames(modules, r, &memory, frames, t->stack.room);
    bool same = plain.count == t->stack.count && plain.end == t->stack.end;
    for (uint32_t i = 0; same && i < plain.count; i++)
        same = frames[plain.count - 1 - i].pc == t->stack.frames[i].pc;
    t->record->verify_checked++;
    t->record->verify_differ += !same;
}

/* A slow timer says how many of its ticks one signal stands for. */
static void take_sample(struct thread *t, const ucontext_t *context, uint64_t weight)
{
    if (!t->tree.slots && !tree_begin(&t->tree, t->record)) {
        arena_count_loss(LOST_NO_ROOM);
        return;
    }
    struct walk_registers r;
    take_registers(context, &r);
    const struct walk_modules *modules = guest->modules;
    struct walk_memory memory = memory_for(t, r.value[X86_RSP]);
    const struct walk_memory at_first = memory;
    stack_walk(&t->stack, modules, &r, &memory);
    learn_stack(t, &memory);
    uint32_t node = node_of_stack(t, modules);
    if (!node) {
        t->stack.past_count = 0; /* the nodes of its frames are not complete */
        arena_count_loss(LOST_NO_ROOM);
        return;
    }
    ((struct arena_node *)arena_at(node))->count += weight;
    struct arena_thread *record = t->record;
    record->samples += weight;
    record->ends[t->stack.end] += weight;
    record->frames_walked += t->stack.count - t->stack.kept;
    if (guest->flags & CHANNEL_VERIFY)
        verify(t, modules, &r, at_first);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    uint64_t start = time_stamp();
    struct thread *t = thread_self();
    if (!guest->arena || guest->arena->paused)
        return;
    if (!t || t->of != guest || !t->record) {
        arena_count_loss(LOST_NO_THREAD);
        return;
    }
    /* However deep the stack, at most half of the time is ours: the program must get on. */
    if (t->busy || start - t->handler_end < t->handler_ticks) {
        arena_count_loss(LOST_BUSY);
        return;
    }
    t->busy = 1;
    take_sample(t, context,
                1 + (uint64_t)(t->timer >= 0 && info->si_overrun > 0 ? info->si_overrun : 0));
    t->handler_end = time_stamp();
    t->handler_ticks = t->handler_end - start;
    t->record->handler_histogram[histogram_bucket(t->handler_ticks)]++;
    t->busy = 0;
}

/*
 * libc installs it, with its own return from signal handlers, which unwinders know. No other signal
 * gets in while it runs: a handler of the program could jump out of it, or cancel the thread in it.
 */
void sample_install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    masks_real_sigaction(SAMPLE_SIGNAL, &action, NULL);
}

static bool start_perf(struct thread *t)
{
    struct perf_event_attr a;
    memset(&a, 0, sizeof a);
    a.size = sizeof a;
    a.type = PERF_TYPE_SOFTWARE;
    a.config = PERF_COUNT_SW_TASK_CLOCK;
    a.sample_period = guest->arena->period_ns;
    a.exclude_kernel = 1;
    a.exclude_hv = 1;
    a.wakeup_events = 1;
    a.disabled = 1;
    long fd = raw_syscall6(SYS_perf_event_open, (long)&a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
    if (fd < 0)
        return false;
    struct f_owner_ex owner = {F_OWNER_TID, (int)t->tid};
    raw_syscall3(SYS_fcntl, fd, F_SETOWN_EX, (long)&owner);
    raw_syscall3(SYS_fcntl, fd, F_SETSIG, SAMPLE_SIGNAL);
    raw_syscall3(SYS_fcntl, fd, F_SETFL, O_ASYNC | O_NONBLOCK);
    t->event_page = raw_mmap(4096, PROT_READ, MAP_SHARED, (int)fd);
    raw_syscall3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    t->event_fd = -1;
    if (t->event_page) {
        raw_syscall3(SYS_close, fd, 0, 0); /* the mapping keeps it alive */
        return true;
    }
    long high = raw_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
    if (high >= 0) {
        raw_syscall3(SYS_close, fd, 0, 0);
        fd = high;
    }
    t->event_fd = (int)fd;
    return true;
}

static bool start_timer(struct thread *t)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SAMPLE_SIGNAL;
    event._sigev_un._tid = (int)t->tid;
    int timer;
    if (raw_syscall3(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&event, (long)&timer) < 0)
        return false;
    long ns = (long)guest->arena->period_ns;
    struct itimerspec every = {{ns / 1000000000, ns % 1000000000},
                               {ns / 1000000000, ns % 1000000000}};
    raw_syscall4(SYS_timer_settime, timer, 0, (long)&every, 0);
    t->timer = timer;
    return true;
}

bool sample_start(struct thread *t)
{
    if (start_perf(t)) {
        guest->arena->source = SOURCE_PERF;
        return true;
    }
    if (start_timer(t)) {
        guest->arena->source = SOURCE_TIMER;
        return true;
    }
    return false;
}

void sample_stop(struct thread *t)
{
    if (t->event_page)
        raw_syscall3(SYS_munmap, (long)t->event_page, 4096, 0);
    if (t->event_fd >= 0)
        raw_syscall3(SYS_close, t->event_fd, 0, 0);
    if (t->timer >= 0)
        raw_syscall3(SYS_timer_delete, t->timer, 0, 0);
    t->event_page = NULL;
    t->event_fd = t->timer = -1;
}
