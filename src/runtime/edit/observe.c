/*
 * Seeing where all threads of the process are, without touching any of them: no signal is sent, so
 * no system call fails and no stack needs room, and threads are seen that block all signals or that
 * the runtime does not know.
 *
 * A thread that sleeps: /proc/self/task/TID/syscall has its pc and its stack pointer, exactly, as
 * the kernel looks that it sleeps before and after. Its stack is read while it does; that it has
 * not run meanwhile is what the number of times says that it got a processor (schedstat).
 *
 * A thread that runs, or could: a perf event of its own, a clock that ticks in user mode only,
 * makes the kernel write down its pc, its stack pointer and a piece of its stack, all of one
 * moment. A thread that has no processor is seen when it gets one.
 *
 * In both cases what was on the stack is searched for addresses that lie inside of a site: the
 * frame of a signal that came there. Nothing else on a stack has such a value, since no call
 * returns there; what is left of earlier frames may, and only makes that it is looked at again
 * later. Where the stack that is seen does not reach up to the thread's first frame, and the
 * program handles signals, the thread counts as not seen.
 */
#include "runtime/edit/observe.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "base/search.h"
#include "runtime/sample_signal.h"
#include "runtime/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>

enum {
    PERIOD_NS = 25000, /* of the clock: half as often as the kernel allows */
    STACK_BYTES = 32 << 10,
    RING_BYTES = 64 << 10, /* room for one record */
    MOST_STACK = 8 << 20,  /* of a sleeping thread that is not known */
    MOST_RESTORERS = 4,
    MOST_STACKS = 4 /* of one thread, from handler to handler */
};

struct watched {
    uint32_t tid;
    bool is_done;
    struct perf_event_mmap_page *ring; /* NULL: none */
};

struct observation {
    const struct live_site *sites;
    uint32_t count;
    uint64_t low, high; /* from the first site to the last */
    uint32_t watched_count;
    uint32_t restorer_count;
    uint64_t restorers[MOST_RESTORERS]; /* what handlers of the program return to */
    bool has_handlers;
    uint64_t mapped; /* bytes of all this */
    char *text;      /* room for a list of threads, or for a piece of a stack */
    uint64_t text_bytes;
    struct watched watched[];
};

enum sight { GONE, OUTSIDE, NOT_SURE, RUNNING };

long thread_read(uint32_t tid, const char *name, char *text, unsigned bytes)
{
    char path[48] = "/proc/self/task/";
    unsigned length = sizeof "/proc/self/task/" - 1, digits = 1;
    for (uint32_t n = tid; n >= 10; n /= 10)
        digits++;
    for (unsigned i = digits; i-- > 0; tid /= 10)
        path[length + i] = (char)('0' + tid % 10);
    length += digits;
    for (unsigned i = 0; name[i] && length < sizeof path - 1; i++)
        path[length++] = name[i];
    path[length] = 0;
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long count = raw_syscall3(SYS_read, fd, (long)text, bytes);
    raw_syscall3(SYS_close, fd, 0, 0);
    return count;
}

/* --- stacks ----------------------------------------------------------------------------------- */

static bool is_inside(const struct observation *o, uint64_t pc)
{
    if (pc <= o->low || pc >= o->high)
        return false;
    uint32_t i;
    SEARCH(i, o->count, o->sites[i].address < pc);
    const struct live_site *s = &o->sites[i - 1];
    return s->first_bytes < s->bytes && pc < s->address + s->bytes;
}

static bool is_restorer(const struct observation *o, uint64_t address)
{
    for (uint32_t i = 0; i < o->restorer_count; i++)
        if (o->restorers[i] == address)
            return true;
    return false;
}

/* How far a frame of a signal reaches from its return address to the stack pointer in it. */
enum { CONTEXT_SP = 8 + offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]) };

/*
 * A piece of a stack that lies at `at`. False: something on it leads inside. Where a handler has a
 * stack of its own, `*other` is where the one lies that it interrupted.
 */
static bool leads_outside(const struct observation *o, const uint64_t *words, uint64_t count,
                          uint64_t at, uint64_t *other)
{
    for (uint64_t i = 0; i < count; i++) {
        if (is_inside(o, words[i]) && !FAULT(FAULT_NO_FRAMES))
            return false;
        if (!is_restorer(o, words[i]) || i + CONTEXT_SP / 8 >= count)
            continue;
        uint64_t sp = words[i + CONTEXT_SP / 8];
        if (sp < at || sp - at > MOST_STACK)
            *other = sp;
    }
    return true;
}

/* Reads words of a stack that may not be there; how many came. */
static uint64_t read_words(const struct observation *o, uint64_t at, uint64_t end)
{
    enum { PIECES = STACK_BYTES / PAGE_BYTES };
    struct iovec here = {o->text, STACK_BYTES}, there[PIECES];
    unsigned pieces = 0;
    for (uint64_t from = at; pieces < PIECES && from < end; pieces++) {
        uint64_t page_end = page_start(from) + PAGE_BYTES;
        uint64_t to = page_end < end ? page_end : end;
        there[pieces] = (struct iovec){(void *)from, to - from};
        from = to;
    }
    long pid = raw_syscall3(SYS_getpid, 0, 0, 0);
    long got = raw_syscall6(SYS_process_vm_readv, pid, (long)&here, 1, (long)there, pieces, 0);
    return got > 0 ? (uint64_t)got / 8 : 0;
}

/* The end of the stack that a thread is on, as far as is known; otherwise very far up. */
static uint64_t stack_end(uint32_t tid, uint64_t sp)
{
    uint64_t top = thread_stack_top(tid);
    return top > sp ? top : UINT64_MAX & ~(uint64_t)7;
}

/* The stack of a thread that sleeps, and those below the handlers that it is in. */
static bool stack_leads_outside(const struct observation *o, uint32_t tid, uint64_t sp)
{
    enum { OVERLAP_WORDS = CONTEXT_SP / 8 + 1 };
    for (unsigned stacks = 0; sp; stacks++) {
        uint64_t other = 0, at = sp & ~(uint64_t)7, end = stack_end(tid, at);
        for (uint64_t begin = at; at < end;) {
            uint64_t count = read_words(o, at, end);
            if (!leads_outside(o, (const uint64_t *)o->text, count, at, &other))
                return false;
            if (count < OVERLAP_WORDS * 2 || at + count * 8 >= end)
                break;
            if (at - begin > MOST_STACK) {
                if (o->has_handlers)
                    return false;
                break;
            }
            at += (count - OVERLAP_WORDS) * 8;
        }
        if (other && stacks == MOST_STACKS)
            return false;
        sp = other;
    }
    return true;
}

/* --- threads that sleep ------------------------------------------------------------------------
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint64_t decimal(const char **at)
{
    uint64_t n = 0;
    for (; is_digit(**at); ++*at)
        n = n * 10 + (uint64_t)(**at - '0');
    return n;
}

/* The last two numbers of a line: a stack pointer and a pc. */
static void last_two(const char *text, long count, uint64_t numbers[2])
{
    for (long i = 0; i + 2 < count; i++) {
        if (text[i] != ' ' || text[i + 1] != '0' || text[i + 2] != 'x')
            continue;
        uint64_t n = 0;
        for (i += 3; i < count && text[i] != ' ' && text[i] != '\n'; i++)
            n = n * 16 + (uint64_t)(is_digit(text[i]) ? text[i] - '0' : text[i] - 'a' + 10);
        i--;
        numbers[0] = numbers[1];
        numbers[1] = n;
    }
}

/* How often a thread has got a processor so far. 0: not known. */
static uint64_t times_it_ran(uint32_t tid)
{
    char text[64];
    long count = thread_read(tid, "/schedstat", text, sizeof text - 1);
    if (count <= 0)
        return 0;
    text[count] = 0;
    const char *at = text; /* ns it ran, ns it waited, times */
    for (unsigned field = 0; field < 2; field++) {
        decimal(&at);
        at += *at == ' ';
    }
    return decimal(&at);
}

static enum sight look(const struct observation *o, uint32_t tid)
{
    char text[256];
    uint64_t before = times_it_ran(tid);
    long count = thread_read(tid, "/syscall", text, sizeof text - 1);
    if (count < 0) /* no such thread, or no such process */
        return count == -ENOENT || count == -ESRCH ? GONE : RUNNING;
    if (!count || text[0] == 'r')
        return RUNNING;
    text[count] = 0;
    const char *at = text;
    uint64_t number = is_digit(*at) ? decimal(&at) : UINT64_MAX, where[2] = {0, 0};
    /* A child of vfork runs in this memory while its parent waits. */
    if (number == SYS_vfork || number == SYS_clone || number == SYS_clone3)
        return NOT_SURE;
    last_two(text, count, where);
    if (FAULT(FAULT_SIGNALS))
        raw_syscall3(SYS_tgkill, raw_syscall3(SYS_getpid, 0, 0, 0), tid, SAMPLE_SIGNAL);
    if (is_inside(o, where[1]) || !stack_leads_outside(o, tid, where[0]))
        return NOT_SURE;
    return before && times_it_ran(tid) == before ? OUTSIDE : RUNNING;
}

/* --- threads that run --------------------------------------------------------------------------
 */

/* A record of the ring: what sample_type below says. */
struct tick {
    struct perf_event_header header;
    uint64_t abi, sp, pc; /* the registers in the order of their numbers */
    uint64_t stack_bytes;
    uint64_t stack[STACK_BYTES / 8 + 1]; /* behind so many bytes, how many could be read */
};

enum { PERF_SP = 7, PERF_PC = 8 }; /* in sample_regs_user */

static_assert(sizeof(struct tick) < RING_BYTES && sizeof(struct tick) < UINT16_MAX,
              "a tick fits into the ring, and its size into the header");

static void watch(struct watched *w)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .sample_period = PERIOD_NS,
                                .sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
                                .sample_regs_user = 1u << PERF_SP | 1u << PERF_PC,
                                .sample_stack_user = STACK_BYTES,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    long fd = raw_syscall6(SYS_perf_event_open, (long)&a, w->tid, -1, -1, PERF_FLAG_FD_CLOEXEC, 0);
    if (fd < 0)
        return;
    /* Writable: then the kernel keeps the first record, and writes no others over it. */
    w->ring = raw_mmap(PAGE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd);
    raw_syscall3(SYS_close, fd, 0, 0); /* the mapping keeps it alive */
}

static void unwatch(struct watched *w)
{
    if (w->ring)
        raw_syscall3(SYS_munmap, (long)w->ring, PAGE_BYTES + RING_BYTES, 0);
    w->ring = NULL;
}

static bool tick_is_outside(const struct observation *o, uint32_t tid, const struct tick *t)
{
    if (is_inside(o, t->pc) || !t->stack_bytes || t->stack_bytes > STACK_BYTES)
        return false;
    uint64_t other = 0, valid = t->stack[t->stack_bytes / 8];
    if (valid > t->stack_bytes || !leads_outside(o, t->stack, valid / 8, t->sp, &other) || other)
        return false;
    bool is_whole = valid < STACK_BYTES || stack_end(tid, t->sp) <= t->sp + valid;
    return is_whole || !o->has_handlers;
}

/* Has it ticked, and was it outside then? Otherwise it ticks again. */
static bool was_outside(const struct observation *o, struct watched *w)
{
    const uint8_t *records = (const uint8_t *)w->ring + PAGE_BYTES;
    uint64_t head = __atomic_load_n(&w->ring->data_head, __ATOMIC_ACQUIRE);
    if (!head)
        return false;
    const struct tick *t = (const void *)records;
    bool is_tick = t->header.type == PERF_RECORD_SAMPLE && t->header.size <= head;
    bool outside = is_tick && t->abi && tick_is_outside(o, w->tid, t);
    unwatch(w); /* the next begins at the ring's start, too */
    if (!outside)
        watch(w);
    return outside;
}

/* --- all of them --------------------------------------------------------------------------------
 */

static uint32_t thread_count(void)
{
    struct stat threads; /* a folder with a folder for each */
    long status = raw_syscall3(SYS_stat, (long)"/proc/self/task", (long)&threads, 0);
    return status < 0 || threads.st_nlink < 3 ? 0 : (uint32_t)threads.st_nlink - 2;
}

struct entry { /* as getdents64 writes it */
    uint64_t inode, offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/*
 * The list of all threads that there were when this began, or false. The kernel lists them in the
 * order in which they were made, and stops early if the one that it is at ends. If there are as
 * many in it as there were threads before, none of those is missing: one that was would have been
 * among them, and all that are listed before it are older.
 */
static bool list_threads(struct observation *o, uint32_t room)
{
    uint32_t least = thread_count();
    long fd = raw_syscall4(SYS_openat, AT_FDCWD, (long)"/proc/self/task",
                           O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0 || !least)
        return false;
    long bytes = raw_syscall3(SYS_getdents64, fd, (long)o->text, (long)o->text_bytes);
    raw_syscall3(SYS_close, fd, 0, 0);
    o->watched_count = 0;
    for (long at = 0; at < bytes && o->watched_count < room;) {
        const struct entry *e = (const void *)(o->text + at);
        const char *name = e->name;
        if (is_digit(*name))
            o->watched[o->watched_count++] = (struct watched){.tid = (uint32_t)decimal(&name)};
        at += e->bytes;
    }
    return o->watched_count >= least;
}

/* What handlers return to, and whether the program has any. */
static void find_handlers(struct observation *o)
{
    struct {
        uint64_t handler, flags, restorer, mask;
    } action;
    for (int number = 1; number <= 64; number++) {
        if (raw_syscall4(SYS_rt_sigaction, number, 0, (long)&action, 8) < 0)
            continue;
        if (action.handler > 1 && number != SAMPLE_SIGNAL && number != 32 && number != 33)
            o->has_handlers = true; /* the last two are libc's own */
        if (action.restorer && !is_restorer(o, action.restorer)) {
            o->restorers[o->restorer_count % MOST_RESTORERS] = action.restorer;
            o->restorer_count += o->restorer_count < MOST_RESTORERS;
        }
    }
}

static struct observation *begin(const struct live_site *sites, uint32_t count, uint32_t room)
{
    enum { ENTRY_BYTES = 32 };
    uint64_t list = (uint64_t)room * ENTRY_BYTES;
    uint64_t text = list > STACK_BYTES ? list : STACK_BYTES;
    uint64_t head = sizeof(struct observation) + room * sizeof(struct watched);
    struct observation *o =
        raw_mmap(head + text, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!o)
        return NULL;
    o->sites = sites;
    o->count = count;
    o->low = sites[0].address;
    o->high = sites[count - 1].address + sites[count - 1].bytes;
    o->mapped = head + text;
    o->text = (char *)o + head;
    o->text_bytes = text;
    find_handlers(o);
    return o;
}

/* Looks at all that have not been seen outside yet. */
static bool look_at_all(struct observation *o, uint32_t self, uint64_t own_frame)
{
    bool all = true;
    for (uint32_t i = 0; i < o->watched_count; i++) {
        struct watched *w = &o->watched[i];
        if (w->is_done)
            continue;
        if (w->tid == self) { /* what lies below is ours, and may have any addresses */
            w->is_done = stack_leads_outside(o, self, own_frame);
        } else {
            enum sight sight = w->ring && was_outside(o, w) ? OUTSIDE : look(o, w->tid);
            w->is_done = sight == GONE || sight == OUTSIDE;
            if (sight == RUNNING && !w->ring)
                watch(w);
        }
        if (w->is_done)
            unwatch(w);
        all &= w->is_done;
    }
    return all;
}

bool observe_all_outside(const struct live_site *sites, uint32_t count, uint64_t own_frame,
                         uint64_t patience_ns)
{
    enum { SPARE = 64, FIRST_STEP_NS = 20000, LAST_STEP_NS = 1000000 };
    if (FAULT(FAULT_NO_WAIT))
        return true;
    const uint64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + patience_ns;
    const uint32_t self = (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
    const uint32_t room = thread_count() + SPARE;
    struct observation *o = begin(sites, count, room);
    if (!o)
        return false;
    bool is_listed = false, all = false;
    struct timespec step = {0, FIRST_STEP_NS};
    for (;;) {
        is_listed = is_listed || list_threads(o, room);
        all = is_listed && look_at_all(o, self, own_frame);
        if (all || clock_ns(CLOCK_MONOTONIC) >= deadline_ns)
            break;
        raw_syscall3(SYS_nanosleep, (long)&step, 0, 0);
        step.tv_nsec = step.tv_nsec * 2 < LAST_STEP_NS ? step.tv_nsec * 2 : LAST_STEP_NS;
    }
    for (uint32_t i = 0; i < o->watched_count; i++)
        unwatch(&o->watched[i]);
    raw_syscall3(SYS_munmap, (long)o, (long)o->mapped, 0);
    return all;
}
