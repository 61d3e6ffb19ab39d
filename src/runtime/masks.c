/*
 * Signal masks and actions as the program means them, without our signal: a thread that blocks all
 * signals is still sampled, and a program that asks what it has blocked is told what it said.
 *
 * Masks are set by raw system calls with what glibc's own wrappers do: its two internal signals can
 * never be blocked.
 */
#include "runtime/process.h"

#include "runtime/arch/x86_64/syscall.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#define EXPORTED __attribute__((visibility("default")))

enum { KERNEL_SIGSET_BYTES = 8, MOST_SIGNALS = 64 };

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

static const uint64_t libc_internal = BIT(32) | BIT(33);
static const uint64_t ours = BIT(SAMPLE_SIGNAL);

/* Does the program think that it has blocked our signal? */
static __thread bool thinks_blocked __attribute__((tls_model("initial-exec")));

static bool asked_to_block[MOST_SIGNALS + 1]; /* by the mask of each signal's action */
static _Atomic uint32_t small_stacks;         /* alternate stacks of threads, as they are now */
static __thread bool has_small_stack __attribute__((tls_model("initial-exec")));
static struct sigaction program_action; /* what the program thinks that it has installed for it */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

/*
 * siglongjmp puts back a mask that libc took from the kernel, which has not got our signal. A mask
 * of all signals is one that the program filled, ours included.
 */
static bool is_full(uint64_t mask)
{
    return !~(mask | ours | libc_internal | BIT(SIGKILL) | BIT(SIGSTOP));
}

long masks_change(int how, const uint64_t *set, uint64_t *old)
{
    uint64_t said = set ? *set : 0, wanted = said & ~ours, before = 0;
    long status = raw_syscall4(SYS_rt_sigprocmask, how, set ? (long)&wanted : 0, (long)&before,
                               KERNEL_SIGSET_BYTES);
    if (status < 0)
        return status;
    if (old)
        *old = (before & ~ours) | (thinks_blocked || is_full(before) ? ours : 0);
    if (set && how == SIG_SETMASK)
        thinks_blocked = (said & ours) != 0;
    else if (said & ours)
        thinks_blocked = how == SIG_BLOCK;
    return 0;
}

void masks_thread_begins(void)
{
    uint64_t before = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&ours, (long)&before, KERNEL_SIGSET_BYTES);
    thinks_blocked = (before & ours) != 0;
}

static int change_mask(int how, const sigset_t *set, sigset_t *old)
{
    uint64_t said = 0, before;
    if (set) {
        memcpy(&said, set, sizeof said);
        said &= ~libc_internal;
    }
    long status = masks_change(how, set ? &said : NULL, &before);
    if (status < 0)
        return (int)-status;
    if (old) {
        memset(old, 0, sizeof *old);
        memcpy(old, &before, sizeof before);
    }
    return 0;
}

EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return change_mask(how, set, old);
}

EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    int status = change_mask(how, set, old);
    if (status)
        errno = status;
    return status ? -1 : 0;
}

int masks_real_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!real_sigaction)
        real_sigaction = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(
            RTLD_NEXT, "sigaction");
    return real_sigaction(number, action, old);
}

/*
 * What is known of actions, and the actions themselves where they are read and written again, have
 * a lock. No handler runs meanwhile, which might want it too. Its word is in the page that a fork
 * wipes. No mask of the kernel's has all bits.
 */
static const uint64_t not_locked = UINT64_MAX;

static uint64_t lock_actions(void)
{
    uint64_t all = UINT64_MAX, mask = 0;
    if (is_confined())
        return not_locked;
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, KERNEL_SIGSET_BYTES);
    while (__atomic_exchange_n((uint32_t *)&guest->action_lock, 1, __ATOMIC_ACQUIRE))
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
    return mask;
}

static void unlock_actions(uint64_t mask)
{
    if (mask == not_locked)
        return;
    __atomic_store_n((uint32_t *)&guest->action_lock, 0, __ATOMIC_RELEASE);
    raw_syscall4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, KERNEL_SIGSET_BYTES);
}

static bool runs_on_alternate_stack(const struct sigaction *a)
{
    return (a->sa_flags & SA_ONSTACK) && a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN;
}

static bool is_same(const struct sigaction *a, const struct sigaction *b)
{
    return a->sa_handler == b->sa_handler && a->sa_flags == b->sa_flags &&
           memcmp(&a->sa_mask, &b->sa_mask, KERNEL_SIGSET_BYTES) == 0;
}

/*
 * Has a handler that runs on an alternate stack block our signal, or not. libc's own functions
 * change actions without our lock (system does): what was in the place of ours tells, and is put
 * back.
 */
static void block_in_handler(int number, struct sigaction action, bool block)
{
    struct sigaction expected = action, found;
    for (;;) {
        if (block && runs_on_alternate_stack(&action))
            sigaddset(&action.sa_mask, SAMPLE_SIGNAL);
        else
            sigdelset(&action.sa_mask, SAMPLE_SIGNAL);
        if (masks_real_sigaction(number, &action, &found) != 0 || is_same(&found, &expected))
            return;
        expected = action;
        action = found;
    }
}

static void block_in_handlers(bool block)
{
    struct sigaction action;
    for (int number = 1; number <= MOST_SIGNALS; number++)
        if (number != SAMPLE_SIGNAL && masks_real_sigaction(number, NULL, &action) == 0 &&
            runs_on_alternate_stack(&action))
            block_in_handler(number, action, block);
}

/* Two signal frames of this machine, and what the handlers themselves need. */
static size_t room_for_two(void)
{
    enum { HANDLERS_BYTES = 6144 };
    return 2 * getauxval(AT_MINSIGSTKSZ) + HANDLERS_BYTES;
}

/*
 * A handler on an alternate stack that has no room for a second signal frame runs with our signal
 * blocked (pitfall 5). Which thread will run the handler is not known, so one small stack in any of
 * them is enough. It blocks before the small stack is there, and unblocks when it is gone.
 */
EXPORTED int sigaltstack(const stack_t *stack, stack_t *old)
{
    bool was_small = has_small_stack;
    bool is_small =
        stack && guest->arena && !(stack->ss_flags & SS_DISABLE) && stack->ss_size < room_for_two();
    uint64_t mask = lock_actions();
    if (is_small && !was_small && small_stacks++ == 0)
        block_in_handlers(true);
    long status = raw_syscall3(SYS_sigaltstack, (long)stack, (long)old, 0);
    if (stack)
        has_small_stack = status < 0 ? was_small : is_small;
    if ((was_small || is_small) && !has_small_stack && --small_stacks == 0)
        block_in_handlers(false);
    unlock_actions(mask);
    if (status < 0)
        errno = (int)-status;
    return status < 0 ? -1 : 0;
}

void masks_thread_ends(void)
{
    if (!has_small_stack)
        return;
    uint64_t mask = lock_actions();
    if (--small_stacks == 0)
        block_in_handlers(false);
    has_small_stack = false;
    unlock_actions(mask);
}

void masks_forget(void)
{
    bool was_any = small_stacks;
    small_stacks = has_small_stack;
    if (was_any && !small_stacks && !is_confined())
        block_in_handlers(false);
}

/* Under the lock. */
static int set_action(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number == SAMPLE_SIGNAL) {
        struct sigaction before = program_action;
        if (action)
            program_action = *action;
        if (old)
            *old = before;
        return 0;
    }
    struct sigaction copy;
    bool asked_before = asked_to_block[number];
    if (action) { /* sampling goes on in the program's handlers */
        copy = *action;
        asked_to_block[number] = sigismember(&copy.sa_mask, SAMPLE_SIGNAL) == 1;
        sigdelset(&copy.sa_mask, SAMPLE_SIGNAL);
        if ((copy.sa_flags & SA_ONSTACK) && small_stacks)
            sigaddset(&copy.sa_mask, SAMPLE_SIGNAL);
    }
    int status = masks_real_sigaction(number, action ? &copy : NULL, old);
    if (old && status == 0) {
        sigdelset(&old->sa_mask, SAMPLE_SIGNAL);
        if (asked_before)
            sigaddset(&old->sa_mask, SAMPLE_SIGNAL);
    }
    return status;
}

EXPORTED int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!guest->arena || number < 1 || number > MOST_SIGNALS)
        return masks_real_sigaction(number, action, old);
    if (has_borrowed_memory()) /* a child of vfork says nothing of its parent's handlers */
        return number == SAMPLE_SIGNAL ? 0 : masks_real_sigaction(number, action, old);
    uint64_t mask = lock_actions();
    int status = set_action(number, action, old);
    unlock_actions(mask);
    return status;
}

/*
 * The older ways to install a handler do not go through sigaction: a program that puts all signals
 * back to their defaults must not die of ours.
 */
static sighandler_t older_way(sighandler_t (*real)(int, sighandler_t), int number,
                              sighandler_t handler)
{
    if (!guest->arena || (has_borrowed_memory() && number != SAMPLE_SIGNAL))
        return real(number, handler);
    uint64_t mask = lock_actions();
    sighandler_t before = program_action.sa_handler;
    if (number == SAMPLE_SIGNAL)
        program_action = (struct sigaction){.sa_handler = handler};
    else
        before = real(number, handler);
    unlock_actions(mask);
    return before;
}

#define OLDER_WAY(name)                                                                            \
    EXPORTED sighandler_t name(int number, sighandler_t handler)                                   \
    {                                                                                              \
        static sighandler_t (*real)(int, sighandler_t);                                            \
        if (!real)                                                                                 \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        return older_way(real, number, handler);                                                   \
    }

OLDER_WAY(signal)
OLDER_WAY(bsd_signal)
OLDER_WAY(ssignal)
OLDER_WAY(sysv_signal)
OLDER_WAY(__sysv_signal)

/* This one changes the thread's mask, too, and looks at it: no lock. */
EXPORTED sighandler_t sigset(int number, sighandler_t handler)
{
    static sighandler_t (*real)(int, sighandler_t);
    if (guest->arena && number == SAMPLE_SIGNAL)
        return older_way(NULL, number, handler);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "sigset");
    return real(number, handler);
}
