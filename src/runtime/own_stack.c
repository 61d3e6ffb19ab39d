#include "runtime/own_stack.h"

#include "arch/x86_64/sample_layout.h"
#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/confined.h"
#include "runtime/event.h"
#include "runtime/faults.h"
#include "runtime/thread.h"
#include "unwind/memory.h"

#include <asm/prctl.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { RED_ZONE = 128, LEAST_BYTES = 2048 };

#define AUTODISARM (1u << 31) /* SS_AUTODISARM */

/* Below it a page that cannot be written to. */
enum { MAPPED = 17 * PAGE_BYTES };

static_assert(PAGE_BYTES + OWN_STACK_BYTES + sizeof(struct own_stack) <= MAPPED &&
                  OWN_STACK_BYTES % 16 == 0,
              "the stack and what is known of it");
static_assert(offsetof(ucontext_t, uc_stack.ss_sp) == CONTEXT_STACK &&
                  offsetof(ucontext_t, uc_stack.ss_size) == CONTEXT_STACK_SIZE,
              "the assembly has these numbers");

static __thread struct own_stack *mine __attribute__((tls_model("initial-exec")));
static bool are_in_use; /* also in a child that was forked and is not recorded */

static uint64_t start_of(const struct own_stack *own)
{
    return (uint64_t)own - OWN_STACK_BYTES;
}

static long set_in_kernel(uint64_t start, uint64_t bytes, unsigned flags)
{
    stack_t stack = {.ss_sp = (void *)start, .ss_size = bytes, .ss_flags = (int)flags};
    return raw_syscall3(SYS_sigaltstack, (long)&stack, 0, 0);
}

static long install(const struct own_stack *own)
{
    return set_in_kernel(start_of(own), OWN_STACK_BYTES, 0);
}

/* The program may have set another one by a system call that we do not see. */
static bool is_installed(const struct own_stack *own)
{
    stack_t now = {0};
    return raw_syscall3(SYS_sigaltstack, 0, (long)&now, 0) == 0 &&
           (uint64_t)now.ss_sp == start_of(own) && now.ss_size == OWN_STACK_BYTES;
}

/* A handler of the program may come in between, and must not see half of it. */
static void say(struct own_stack *own, uint64_t start, uint64_t bytes)
{
    own->said_bytes = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    own->said_start = start;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    own->said_bytes = bytes;
}

/* --- threads --------------------------------------------------------------------------------- */

static int can_read_fs_base =
    -1; /* without a system call: the processor and the kernel permit it */

static uint64_t read_fs_base(void)
{
    uint64_t base;
    __asm__ volatile("rdfsbase %0" : "=r"(base));
    return base;
}

static uint64_t find_fs_base(void)
{
    enum { HAS_RDFSBASE = 2 }; /* in AT_HWCAP2 */
    uint64_t base = 0;
    if (can_read_fs_base < 0)
        can_read_fs_base = (getauxval(AT_HWCAP2) & HAS_RDFSBASE) != 0;
    if (can_read_fs_base)
        return read_fs_base();
    raw_syscall3(SYS_arch_prctl, ARCH_GET_FS, (long)&base, 0);
    return base;
}

bool own_stack_has_libc_thread(const struct own_stack *own)
{
    if (can_read_fs_base)
        return read_fs_base() == own->fs_base;
    return is_confined() || find_fs_base() == own->fs_base;
}

static struct own_stack *make(void)
{
    char *memory =
        raw_mmap(MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!memory)
        return NULL;
    raw_syscall3(SYS_mprotect, (long)memory, PAGE_BYTES, PROT_NONE);
    struct own_stack *own = (void *)(memory + PAGE_BYTES + OWN_STACK_BYTES);
    own->magic = OWN_STACK_MAGIC;
    return own;
}

/* All that handlers look at is there before the kernel is told: one may come at once. */
bool own_stack_begin(struct thread *t)
{
    stack_t old = {0};
    if (mine && is_installed(mine)) { /* a forked child has it from its parent */
        mine->thread = t;
        t->own_stack = mine;
        return true;
    }
    if (!t->own_stack)
        t->own_stack = make();
    struct own_stack *own = t->own_stack;
    if (!own || raw_syscall3(SYS_sigaltstack, 0, (long)&old, 0) < 0 ||
        (old.ss_flags & (int)AUTODISARM))
        return false;
    say(own, (uint64_t)old.ss_sp, old.ss_size);
    own->fs_base = find_fs_base();
    own->waits = NULL;
    own->thread = t;
    are_in_use = true;
    mine = own;
    if (install(own) == 0)
        return true;
    own->thread = NULL; /* it is on its own now */
    mine = NULL;
    return false;
}

void own_stack_end(struct thread *t)
{
    struct own_stack *own = t->own_stack;
    if (!own || own != mine)
        return;
    own->thread = NULL;
    long status = -EPERM;
    if (!is_confined() && is_installed(own))
        status = set_in_kernel(own->said_start, own->said_bytes, own->said_bytes ? 0 : SS_DISABLE);
    if (status < 0) /* it may still be in use: it stays as it is for good */
        t->own_stack = NULL;
    else
        mine = NULL;
}

void own_stack_forget(void)
{
    if (mine)
        mine->thread = NULL;
}

/* --- what the program says of its own ------------------------------------------------------- */

static bool is_on(uint64_t start, uint64_t bytes, uint64_t sp)
{
    return sp > start && sp - start <= bytes;
}

/* As the kernel judges; 0 if it is in order. */
static long judge(const struct own_stack *own, const stack_t *stack, uint64_t sp)
{
    unsigned mode = (unsigned)stack->ss_flags & ~AUTODISARM;
    if (is_on(own->said_start, own->said_bytes, sp))
        return -EPERM;
    if (mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0)
        return -EINVAL;
    return mode != SS_DISABLE && stack->ss_size < LEAST_BYTES ? -ENOMEM : 0;
}

/* One with SS_AUTODISARM takes the place of ours, and must have the room that a sample needs. */
static long hand_over(const struct own_stack *own, const stack_t *stack)
{
    struct thread *t = own->thread;
    if (t && stack->ss_size < getauxval(AT_MINSIGSTKSZ) + 2 * SAMPLE_ROOM) {
        event_stop(t);
        guest->arena->threads_not_sampled++;
    }
    return raw_syscall3(SYS_sigaltstack, (long)stack, 0, 0);
}

static bool is_readable(const stack_t *stack)
{
    return is_confined() ||
           (memory_can_be_read((uint64_t)stack) && memory_can_be_read((uint64_t)(stack + 1) - 8));
}

/* A thread that the program has made without libc may share its thread-local variables. */
static bool is_of_this_thread(const struct own_stack *own)
{
    return own->thread && own->thread->tid == (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
}

long own_stack_change(const stack_t *stack, stack_t *old)
{
    struct own_stack *own = mine;
    bool is_plain = stack && is_readable(stack) && !((unsigned)stack->ss_flags & AUTODISARM);
    if (!own || !is_installed(own)) {
        long status = raw_syscall3(SYS_sigaltstack, (long)stack, (long)old, 0);
        if (status == 0 && is_plain && own && is_of_this_thread(own) && install(own) == 0)
            say(own, (uint64_t)stack->ss_sp, stack->ss_flags & SS_DISABLE ? 0 : stack->ss_size);
        return status;
    }
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    if (stack && !is_readable(stack))
        return -EFAULT;
    stack_t wanted = stack ? *stack : (stack_t){0};
    stack_t before = {.ss_sp = (void *)own->said_start,
                      .ss_size = own->said_bytes,
                      .ss_flags = !own->said_bytes                              ? SS_DISABLE
                                  : is_on(own->said_start, own->said_bytes, sp) ? SS_ONSTACK
                                                                                : 0};
    long status = stack ? judge(own, &wanted, sp) : 0;
    if (status == 0 && stack && !is_plain)
        status = hand_over(own, &wanted);
    else if (status == 0 && stack && (wanted.ss_flags & SS_DISABLE))
        say(own, 0, 0);
    else if (status == 0 && stack)
        say(own, (uint64_t)wanted.ss_sp, wanted.ss_size);
    if (status < 0 || !old)
        return status;
    status = raw_syscall3(SYS_sigaltstack, 0, (long)old, 0); /* can it be written to? */
    if (status == 0)
        *old = before;
    return status;
}

/* --- its handlers ---------------------------------------------------------------------------- */

extern char handler_stubs[] __attribute__((visibility("hidden")));
void *handler_table[HANDLER_STUBS + FAULT_STUBS] __attribute__((visibility("hidden")));

/* A stub's place in the table, or how many there are: it is none. */
static uint64_t index_of(const void *installed)
{
    enum { ALL = HANDLER_STUBS + FAULT_STUBS };
    uint64_t at = (uint64_t)installed - (uint64_t)handler_stubs;
    return at < (uint64_t)ALL * HANDLER_STUB_BYTES && at % HANDLER_STUB_BYTES == 0
               ? at / HANDLER_STUB_BYTES
               : ALL;
}

static void *handler_of(void *installed)
{
    uint64_t i = index_of(installed);
    return i < HANDLER_STUBS + FAULT_STUBS ? handler_table[i] : installed;
}

/* One of those from first to end, which stands for this handler. */
static void *stub_of(void *handler, unsigned first, unsigned end)
{
    enum { HOLD = 2 }; /* SIG_ERR is -1, SIG_DFL 0, SIG_IGN 1 */
    if ((uint64_t)handler + 1 <= HOLD + 1 || handler_of(handler) != handler)
        return handler;
    for (unsigned i = first; i < end; i++) {
        void *expected = NULL;
        if (handler_table[i] == handler ||
            __atomic_compare_exchange_n(&handler_table[i], &expected, handler, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            expected == handler)
            return handler_stubs + (size_t)i * HANDLER_STUB_BYTES;
    }
    return handler; /* so many are not seen in practice; it runs as it is */
}

/* Of each signal: what the program wants blocked in its handler, as it says it, and all of it. */
enum { MOST_SIGNALS = 64 };
static uint64_t said_masks[MOST_SIGNALS + 1], blocked_masks[MOST_SIGNALS + 1];

void own_stack_take_action(int number, void **handler, uint64_t *mask, uint64_t flags)
{
    if (number < 1 || number > MOST_SIGNALS)
        return;
    if (!are_in_use || !(flags & SA_ONSTACK)) { /* its frame will be where it belongs */
        if (faults_are_watched(number))
            *handler = stub_of(*handler, HANDLER_STUBS, HANDLER_STUBS + FAULT_STUBS);
        return;
    }
    void *stub = stub_of(*handler, 0, HANDLER_STUBS);
    if (stub == *handler)
        return;
    said_masks[number] = *mask;
    blocked_masks[number] = *mask | (flags & SA_NODEFER ? 0 : UINT64_C(1) << (number - 1));
    *handler = stub;
    *mask = UINT64_MAX;
}

void own_stack_say_action(void **handler, uint64_t *mask, uint64_t before)
{
    if (index_of(*handler) < HANDLER_STUBS)
        *mask = before;
    *handler = handler_of(*handler);
}

uint64_t own_stack_said_mask(int number)
{
    return number < 1 || number > MOST_SIGNALS ? 0 : said_masks[number];
}

const sigset_t *own_stack_wait(const sigset_t *mask)
{
    struct own_stack *own = mine;
    const sigset_t *before = own ? own->waits : NULL;
    if (own)
        own->waits = mask;
    return before;
}

/*
 * Has the signal ended the call that waits with another mask? That one is in force then, and the
 * frame has the one from before the call. The kernel leaves the call's arguments in their
 * registers: the mask is one of them, or pselect's last points to it.
 */
uint64_t own_stack_mask(const ucontext_t *context, const struct own_stack *own)
{
    enum { SYSCALL_BYTES = 2 };
    static const uint8_t system_call[SYSCALL_BYTES] = {0x0f, 0x05};
    const greg_t *r = context->uc_mcontext.gregs;
    const sigset_t *waits = own ? own->waits : NULL;
    bool is_it =
        waits && r[REG_RAX] == -EINTR && memory_can_be_read((uint64_t)r[REG_RIP] - SYSCALL_BYTES) &&
        memcmp((const char *)r[REG_RIP] - SYSCALL_BYTES, system_call, SYSCALL_BYTES) == 0 &&
        (r[REG_RDI] == (greg_t)waits || r[REG_R10] == (greg_t)waits || r[REG_R8] == (greg_t)waits ||
         (memory_can_be_read((uint64_t)r[REG_R9]) && *(const greg_t *)r[REG_R9] == (greg_t)waits));
    uint64_t mask;
    memcpy(&mask, is_it ? waits : &context->uc_sigmask, sizeof mask);
    return mask;
}

/* The kernel writes the state of the vector registers behind the rest, and its size into it. */
static uint64_t end_of_frame(const ucontext_t *context)
{
    enum { LEGACY_BYTES = 512, SOFTWARE_WORDS = 464, MAGIC = 0x46505853 };
    const char *state = (const char *)context->uc_mcontext.fpregs;
    uint32_t words[2];
    if (!state)
        return (uint64_t)(context + 1);
    memcpy(words, state + SOFTWARE_WORDS, sizeof words);
    return (uint64_t)state + (words[0] == MAGIC ? words[1] : LEGACY_BYTES);
}

/* For a stub: how far the frame has moved (own: NULL: it is not on our stack), and what is to be
 * blocked from then on. */
struct placed {
    uint64_t distance, mask;
};
struct placed own_stack_place(uint64_t frame, const struct own_stack *own, int number)
    __attribute__((visibility("hidden")));

struct placed own_stack_place(uint64_t frame, const struct own_stack *own, int number)
{
    uint64_t mask = own_stack_mask((const ucontext_t *)(frame + sizeof(uint64_t)), own);
    return (struct placed){own ? own_stack_move(frame, own, true) : 0,
                           mask | blocked_masks[number]};
}

/* No other signal comes while this is done. */
uint64_t own_stack_move(uint64_t frame, const struct own_stack *own, bool on_stack)
{
    enum { ALIGNMENT = 64, STUB_ROOM = 64 };
    const ucontext_t *context = (const ucontext_t *)(frame + sizeof(uint64_t));
    uint64_t sp = (uint64_t)context->uc_mcontext.gregs[REG_RSP], end = end_of_frame(context);
    uint64_t start = own->said_start, bytes = own->said_bytes;
    if (is_on(start_of(own), OWN_STACK_BYTES, sp))
        return 0;
    bool enters = on_stack && bytes && !is_on(start, bytes, sp);
    uint64_t top = enters ? start + bytes : sp - RED_ZONE;
    uint64_t distance = (top - end) & ~(uint64_t)(ALIGNMENT - 1);
    if (bytes && is_on(start, bytes, top) && frame + distance <= start + STUB_ROOM)
        return 0; /* it does not fit */
    memcpy((void *)(frame + distance), (const void *)frame, end - frame);
    ucontext_t *moved = (ucontext_t *)((uint64_t)context + distance);
    if (moved->uc_mcontext.fpregs)
        moved->uc_mcontext.fpregs = (fpregset_t)((uint64_t)moved->uc_mcontext.fpregs + distance);
    return distance;
}
