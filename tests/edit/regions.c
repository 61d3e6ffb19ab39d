/*
 * Walks of the stack from every instruction of hand-written stubs, and of what they call.
 *
 *     regions            single steps; at each, all unwinders of this process walk the stack
 *     regions churn      the same, while a thread makes and drops other regions
 *     regions stop N     stops at the Nth instruction in the region, for tools outside: prints its
 *                        process, the instruction's address, the function that it stands for, and
 *                        where in it; ends with the input
 *     regions count      how many there are
 *     regions run        without single steps, for a debugger
 *     regions jit        is the program's own list for debuggers left alone? (OWN_JIT)
 *     regions modules    how many dl_iterate_phdr lists: before, with, and after a region
 */
#include "region_maker.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>
#ifdef WITH_LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#define NOINLINE __attribute__((noinline))

/* --- the stubs -------------------------------------------------------------------------------- */

/* A row: where it begins, pc, words, and which words hold rax, rcx, rdx. */
#define ROW(place, of_pc, of_words, of_flags, of_rax, of_rcx, of_rdx)                              \
    {                                                                                              \
        .at = (place), .pc = (of_pc), .words = (of_words), .flags = (of_flags), .rax = (of_rax),   \
        .rcx = (of_rcx), .rdx = (of_rdx)                                                           \
    }
#define END                                                                                        \
    {                                                                                              \
        .at = UINT16_MAX                                                                           \
    }

/* At a call, the return address is on the stack. */
static const struct stub_row direct_rows[] = {ROW(0, 0, 1, 0, 0, 0, 0), ROW(1, 0, 2, 0, 2, 0, 0),
                                              ROW(2, 0, 3, 0, 2, 3, 0), ROW(7, 0, 2, 0, 2, 0, 0),
                                              ROW(8, 0, 1, 0, 0, 0, 0), END};
static const struct stub_row indirect_rows[] = {ROW(0, 0, 1, 0, 0, 0, 0),
                                                ROW(2, 0, 2, 0, 0, 0, 0),
                                                ROW(3, 0, 3, 0, 3, 0, 0),
                                                ROW(4, 0, 4, 0, 3, 4, 0),
                                                ROW(5, 0, 5, 0, 3, 4, 5),
                                                ROW(20, 0, 5, ROW_RETURNS, 3, 4, 5),
                                                ROW(21, 0, 4, 0, 3, 4, 0),
                                                ROW(22, 0, 3, 0, 3, 0, 0),
                                                ROW(23, 0, 2, 0, 0, 0, 0),
                                                ROW(28, 0, 1, 0, 0, 0, 0),
                                                END};
static const struct stub_row moved_rows[] = {
    ROW(0, -8, 0, ROW_MOVES, 0, 0, 0), ROW(8, 0, 0, 0, 0, 0, 0),  ROW(14, 0, 1, 0, 0, 0, 0),
    ROW(15, 0, 2, 0, 0, 2, 0),         ROW(16, 0, 1, 0, 0, 0, 0), END};
/* Behind the call: the last byte of the site, which is 6 bytes long. */
static const struct stub_row encoded_rows[] = {ROW(0, 0, 0, 0, 0, 0, 0),
                                               ROW(7, 5, 0, ROW_RETURNS, 0, 0, 0), END};
static const struct stub_row tail_rows[] = {ROW(0, 0, 0, 0, 0, 0, 0),   ROW(5, 0, 16, 0, 0, 0, 0),
                                            ROW(6, 0, 17, 0, 0, 0, 17), ROW(9, 0, 16, 0, 0, 0, 0),
                                            ROW(17, 0, 0, 0, 0, 0, 0),  END};

typedef void function(void);
function direct, indirect, moved, encoded, tail;
extern const uint8_t direct_site[], indirect_site[], moved_code[], moved_site[], moved_back[],
    encoded_site[], encoded_back[], tail_site[];
extern const uint8_t stub_direct[], stub_direct_end[], stub_indirect[], stub_indirect_end[],
    stub_moved[], stub_moved_end[], stub_encoded[], stub_encoded_end[], stub_tail[],
    stub_tail_end[];
extern uint8_t *slot_direct, *slot_indirect, *slot_moved, *slot_encoded, *slot_tail;
extern const uint8_t direct_to[], indirect_common[], moved_to[], moved_return[], encoded_to[],
    encoded_return[], tail_to[];

enum { DIRECT, INDIRECT, MOVED, ENCODED, TAIL, SHAPES };

static struct hand_stub stubs[SHAPES] = {
    {stub_direct, stub_direct_end, direct_site, &slot_direct, direct_rows, NULL},
    {stub_indirect, stub_indirect_end, indirect_site, &slot_indirect, indirect_rows, NULL},
    {stub_moved, stub_moved_end, moved_site, &slot_moved, moved_rows, NULL},
    {stub_encoded, stub_encoded_end, encoded_site, &slot_encoded, encoded_rows, NULL},
    {stub_tail, stub_tail_end, tail_site, &slot_tail, tail_rows, NULL}};
static function *const functions[SHAPES] = {direct, indirect, moved, encoded, tail};
static const char *const names[SHAPES] = {"direct", "indirect", "moved", "encoded", "tail"};

static volatile int sink;

static bool walks_inside;
static unsigned running; /* the shape */

static void walk_all(const uint8_t *pc, unsigned shape);

/*
 * By single steps nothing changes here but rax: some frames are known by another register. Such a
 * frame, that of `indirect`, cannot be walked to when it has called something, but from its stub,
 * which has the register on the stack.
 */
NOINLINE void leaf(void)
{
    __asm__ volatile("incl %0" : "+m"(sink));
    if (walks_inside && running != INDIRECT)
        walk_all(NULL, running);
    __asm__ volatile("incl %0" : "+m"(sink));
}

/* Stubs do not align the stack. */
NOINLINE __attribute__((force_align_arg_pointer)) void slow(void)
{
    if (walks_inside)
        walk_all(NULL, running);
    __asm__ volatile("decl %0" : "+m"(sink));
}

function *leaf_pointer = leaf;

/* A word of a stub that was copied. */
static void set_word(unsigned shape, const uint8_t *word, const void *value)
{
    memcpy(stubs[shape].made + (word - stubs[shape].code), &value, sizeof value);
}

static void set_words(void)
{
    set_word(DIRECT, direct_to, leaf);
    set_word(INDIRECT, indirect_common, region_common);
    set_word(MOVED, moved_to, leaf);
    set_word(MOVED, moved_return, moved_back);
    set_word(ENCODED, encoded_to, leaf);
    set_word(ENCODED, encoded_return, encoded_back);
    set_word(TAIL, tail_to, leaf);
}

/* --- what must be seen ------------------------------------------------------------------------ */

enum { MOST_FRAMES = 64, TAIL_FRAMES = 3 };

/* Return addresses of whatever `middle` calls, of `middle` and of `outer`. */
static void *callers[TAIL_FRAMES];

static bool is_in_region(const void *pc)
{
    return (const uint8_t *)pc >= region_code && (const uint8_t *)pc < region_code_end;
}

/* Where the program is when the stub is at pc; NULL: that is not in a stub. */
static const uint8_t *expected_place(const uint8_t *pc, unsigned *shape)
{
    for (unsigned i = 0; i < SHAPES; i++) {
        const struct hand_stub *s = &stubs[i];
        if (pc < s->made || pc >= s->made + (s->code_end - s->code))
            continue;
        const unsigned place = (unsigned)(pc - s->made);
        *shape = i;
        if (i == MOVED && place < 8)
            return moved_code + place;
        return i == ENCODED && place >= 7 ? s->site + 5 : s->site;
    }
    return NULL;
}

static unsigned long checked, wrong;
static unsigned long with_stub; /* walks without a signal that have met a stub */

static void complain(const char *who, const char *what, void *const *frames, unsigned count)
{
    if (wrong++ >= 10)
        return;
    printf("%s: %s:", who, what);
    for (unsigned i = 0; i < count; i++) {
        Dl_info info;
        if (is_in_region(frames[i]))
            printf(" region+%ld", (long)((const uint8_t *)frames[i] - region_code));
        else if (dladdr(frames[i], &info) && info.dli_sname)
            printf(" %s+%ld", info.dli_sname, (long)((char *)frames[i] - (char *)info.dli_saddr));
        else
            printf(" %p", frames[i]);
    }
    printf("\n");
}

/* The frames from the interrupted one on; `pc` is that one's. NULL: nothing was interrupted. */
static void check(const char *who, void *const *frames, unsigned count, const uint8_t *pc,
                  unsigned shape_run)
{
    unsigned at = 0, shape = 0;
    checked++;
    while (pc && at < count && frames[at] != pc)
        at++;
    if (at == count) {
        complain(who, "the interrupted frame is missing", frames, count);
        return;
    }
    unsigned end = at;
    while (end < count && frames[end] != callers[0])
        end++;
    if (end + TAIL_FRAMES > count || memcmp(&frames[end], callers, sizeof callers) != 0) {
        complain(who, "the callers are not reached", frames, count);
        return;
    }
    /* Each frame in a stub is followed by the place that the stub stands for. */
    unsigned stub_frames = 0;
    for (unsigned i = at; i < end; i++) {
        const uint8_t *place = expected_place(frames[i], &shape);
        stub_frames += place != NULL;
        if (place && (shape != shape_run || frames[i + 1] != (void *)place || i + 2 != end)) {
            complain(who, "not where the stub is", frames, count);
            return;
        }
    }
    if (!pc)
        with_stub += stub_frames;
    if (is_in_region(pc) && end - at != (expected_place(pc, &shape) ? 2 : 3))
        complain(who, "frames too many or too few", frames, count);
}

/* --- unwinders of this process ---------------------------------------------------------------- */

struct walk {
    void *frames[MOST_FRAMES];
    unsigned count;
    unsigned shape; /* that runs */
    bool bad_registers;
};

static _Unwind_Reason_Code one_frame(struct _Unwind_Context *c, void *argument)
{
    struct walk *w = argument;
    void *pc = (void *)_Unwind_GetIP(c);
    unsigned shape;
    const void *before = w->count ? w->frames[w->count - 1] : NULL;
    /* What the functions have put into registers before their sites. */
    if (before && is_in_region(before) && expected_place(before, &shape) &&
        (shape == DIRECT || shape == INDIRECT))
        w->bad_registers |= _Unwind_GetGR(c, 0) != 0x11 || _Unwind_GetGR(c, 1) != 0x33 ||
                            (shape == DIRECT && _Unwind_GetGR(c, 2) != 0x22);
    if (w->count < MOST_FRAMES && pc)
        w->frames[w->count++] = pc;
    return _URC_NO_REASON;
}

static void walk_all(const uint8_t *pc, unsigned shape)
{
    struct walk w = {.shape = shape};
    _Unwind_Backtrace(one_frame, &w);
    check("_Unwind_Backtrace", w.frames, w.count, pc, shape);
    if (w.bad_registers && is_in_region(pc))
        complain("_Unwind_Backtrace", "registers", w.frames, w.count);
    int n = backtrace(w.frames, MOST_FRAMES);
    check("backtrace", w.frames, (unsigned)n, pc, shape);
#ifdef WITH_LIBUNWIND
    unw_context_t context;
    unw_cursor_t cursor;
    unw_word_t ip;
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    w.count = 0;
    do {
        unw_get_reg(&cursor, UNW_REG_IP, &ip);
        w.frames[w.count++] = (void *)ip;
    } while (w.count < MOST_FRAMES && unw_step(&cursor) > 0);
    check("unw_step", w.frames, w.count, pc, shape);
    n = unw_backtrace(w.frames, MOST_FRAMES);
    check("unw_backtrace", w.frames, (unsigned)n, pc, shape);
#endif
}

/* --- running ---------------------------------------------------------------------------------- */

static unsigned long in_region;
static bool by_steps;

/* Takes the callers as they are without any stub. */
static void probe(void)
{
    void *frames[MOST_FRAMES];
    int n = backtrace(frames, MOST_FRAMES);
    if (n > TAIL_FRAMES)
        memcpy(callers, frames + 1, sizeof callers);
}

#define FLAGS(change) __asm__ volatile("pushfq\n " change ", (%%rsp)\n popfq" : : : "memory", "cc")

/* No red zone here: FLAGS uses the stack. */
NOINLINE void middle(function *f)
{
    if (by_steps)
        FLAGS("orq $0x100");
    f();
    FLAGS("andq $~0x100");
    sink = sink + 1;
}

NOINLINE void outer(function *f)
{
    middle(f);
    sink = sink + 1;
}

/* LLVM's unwinder, up to 14, looks up the address before the interrupted one, which may have other
 * rows; not so in stubs. */
#ifdef WITH_LLVM
static const bool walks_plain_code = false;
#else
static const bool walks_plain_code = true;
#endif

static bool is_of_driver(const uint8_t *pc)
{
    return pc >= (const uint8_t *)middle && pc < (const uint8_t *)outer;
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    const ucontext_t *c = context;
    const uint8_t *pc = (const uint8_t *)c->uc_mcontext.gregs[REG_RIP];
    (void)number;
    (void)info;
    unsigned shape;
    in_region += is_in_region(pc);
    if (expected_place(pc, &shape) || (walks_plain_code && !is_of_driver(pc)))
        walk_all(pc, running);
}

/* The only call of `outer`: all runs have the same callers. */
NOINLINE static void run_all(bool steps)
{
    for (unsigned i = steps ? 0 : 1; i <= SHAPES; i++) {
        running = i ? i - 1 : 0;
        by_steps = steps && i;
        outer(i ? functions[running] : probe);
        __asm__ volatile("" : : : "memory");
    }
}

static atomic_bool churns;

static void *churn(void *unused)
{
    churn_regions(unused);
    churns = false;
    return NULL;
}

static int walk_by_steps(void)
{
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    do
        run_all(true);
    while (churns);
    /* Called by a stub, through the common code or not: registers are not known then. */
    walks_inside = true;
    run_all(false);
    walks_inside = false;
    printf("%lu steps in the region, %lu walks, %lu wrong, %lu without a signal\n", in_region,
           checked, wrong, with_stub);
    return wrong || !in_region || with_stub < 4;
}

static void trace(pid_t child, unsigned long wanted)
{
    int status;
    unsigned long count = 0;
    waitpid(child, &status, 0);
    while (WIFSTOPPED(status)) {
        struct user_regs_struct r;
        ptrace(PTRACE_GETREGS, child, 0, &r);
        const uint8_t *pc = (const uint8_t *)r.rip;
        if (is_in_region(pc) && ++count == wanted) {
            unsigned shape = 0;
            const uint8_t *place = expected_place(pc, &shape);
            ptrace(PTRACE_DETACH, child, 0, SIGSTOP);
            waitpid(child, &status, WUNTRACED);
            printf("%d %p %s %p\n", child, (const void *)pc, place ? names[shape] : "common",
                   (const void *)place);
            fflush(stdout);
            getchar();
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return;
        }
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        waitpid(child, &status, 0);
    }
    printf("%lu\n", count);
}

static int count_modules(struct dl_phdr_info *info, size_t bytes, void *argument)
{
    (void)info;
    (void)bytes;
    ++*(unsigned *)argument;
    return 0;
}

static unsigned modules(void)
{
    unsigned count = 0;
    dl_iterate_phdr(count_modules, &count);
    return count;
}

/* A program that makes code itself, and tells debuggers of it. */
#ifdef OWN_JIT
struct {
    uint32_t version, action;
    void *relevant, *first;
} __jit_debug_descriptor = {.version = 1};
static unsigned own_calls;

NOINLINE void __jit_debug_register_code(void)
{
    own_calls++;
}
#endif

/* A debugger has a breakpoint here. */
NOINLINE void steps_begin(void)
{
    sink = sink + 1;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    void *first_use[4];
    backtrace(first_use, 4); /* loads a library */
    const unsigned before = modules();
    region_slow = slow;
    make_region(stubs, SHAPES, set_words);
    if (strcmp(mode, "modules") == 0) {
        const unsigned with = modules();
        drop_region();
        printf("%u, %u, %u modules\n", before, with, modules());
        return 0;
    }
    if (strcmp(mode, "run") == 0) {
        steps_begin();
        run_all(false);
        return 0;
    }
    if (!*mode)
        return walk_by_steps();
    if (strcmp(mode, "churn") == 0) {
        pthread_t thread;
        churns = true;
        pthread_create(&thread, NULL, churn, NULL);
        const int status = walk_by_steps();
        pthread_join(thread, NULL);
        const unsigned left = count_for_debuggers();
        drop_region();
        printf("%u regions left, then %u\n", left, count_for_debuggers());
        return status || left != 1 || count_for_debuggers() != 0;
    }
#ifdef OWN_JIT
    if (strcmp(mode, "jit") == 0) {
        printf("%u region, own list %s\n", count_for_debuggers(),
               __jit_debug_descriptor.first || own_calls ? "changed" : "as it was");
        return 0;
    }
#endif
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        run_all(false);
        _exit(0);
    }
    trace(child, argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
    return 0;
}
