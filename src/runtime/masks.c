/*
 * Signal masks and actions as the program means them, without our signal: a thread that blocks all
 * signals is still sampled, and a program that asks what it has blocked is told what it said.
 *
 * Masks are set by raw system calls with what glibc's own wrappers do: its two internal signals can
 * never be blocked.
 */
#include "runtime/masks.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/guest.h"
#include "runtime/own_stack.h"
#include "runtime/sample_signal.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define EXPORTED __attribute__((visibility("default")))

enum { KERNEL_SIGSET_BYTES = 8, MOST_SIGNALS = 64 };

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

static const uint64_t libc_internal = BIT(32) | BIT(33);
static const uint64_t ours = BIT(SAMPLE_SIGNAL);

/* Does the program think that it has blocked our signal? */
static __thread bool thinks_blocked __attribute__((tls_model("initial-exec")));

static bool asked_to_block[MOST_SIGNALS + 1]; /* by the mask of each signal's action */

/* What the program has installed for our signal, which it may use as any other. */
static struct sigaction program_action;

/* One that came while the program had it blocked: signo, errno, code, who sent it, and its value.
 */
static __thread struct {
    int numbers[4];
    uint64_t rest[2];
} held __attribute__((tls_model("initial-exec")));

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

/*
 * siglongjmp puts back a mask that libc took from the kernel, which has not got our signal. A mask
 * of all signals is one that the program filled, ours included.
 */
static bool is_full(uint64_t mask)
{
    return !~(mask | ours | libc_internal | BIT(SIGKILL) | BIT(SIGSTOP));
}

/* Sends again what was held, when the program permits it. */
static void let_go(void)
{
    siginfo_t info;
    memset(&info, 0, sizeof info);
    memcpy(&info, &held, sizeof held);
    held.numbers[0] = 0;
    raw_syscall4(SYS_rt_tgsigqueueinfo, raw_syscall3(SYS_getpid, 0, 0, 0),
                 raw_syscall3(SYS_gettid, 0, 0, 0), SAMPLE_SIGNAL, (long)&info);
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
    if (held.numbers[0] && !thinks_blocked)
        let_go();
    return 0;
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

EXPORTED int sigaltstack(const stack_t *stack, stack_t *old)
{
    long status = own_stack_change(stack, old);
    if (status < 0)
        errno = (int)-status;
    return status < 0 ? -1 : 0;
}

void masks_thread_begins(void)
{
    uint64_t before = 0;
    raw_syscall4(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&ours, (long)&before, KERNEL_SIGSET_BYTES);
    thinks_blocked = (before & ours) != 0;
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

/*
 * libc installs it, with its own return from signal handlers, which unwinders know. No other signal
 * gets in while it runs: a handler of the program could jump out of it, or cancel the thread in it.
 */
void masks_install_handler(bool restarts)
{
    struct sigaction action = {.sa_sigaction = sample_entry,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | (restarts ? SA_RESTART : 0)};
    /* sigfillset leaves out the two of libc's own, one of which cancels threads. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    masks_real_sigaction(SAMPLE_SIGNAL, &action, NULL);
}

/* No tick comes in a system call: whether a signal of the program's ends one is the program's word.
 */
static void use_action(const struct sigaction *action)
{
    bool has_handler = action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
    program_action = *action;
    masks_install_handler(!has_handler || (action->sa_flags & SA_RESTART));
}

void masks_begin(void)
{
    masks_real_sigaction(SAMPLE_SIGNAL, NULL, &program_action); /* it may be ignored */
}

/* A signal of our number, but not from an event: what is to be done with its frame. */
void masks_forward(uint64_t frame, const struct own_stack *own, const siginfo_t *info,
                   struct forwarded *to)
{
    const ucontext_t *context = (const ucontext_t *)(frame + sizeof(uint64_t));
    const struct sigaction action = program_action;
    to->handler = NULL;
    if (own && !own_stack_has_libc_thread(own))
        return;
    if (thinks_blocked) {
        memcpy(&held, info, sizeof held);
        return;
    }
    if (action.sa_handler == SIG_IGN)
        return;
    if (action.sa_handler == SIG_DFL) { /* it comes again, and is the end */
        masks_real_sigaction(SAMPLE_SIGNAL, &action, NULL);
        raw_syscall3(SYS_tgkill, raw_syscall3(SYS_getpid, 0, 0, 0),
                     raw_syscall3(SYS_gettid, 0, 0, 0), SAMPLE_SIGNAL);
        return;
    }
    if (action.sa_flags & (int)SA_RESETHAND)
        use_action(&(struct sigaction){.sa_handler = SIG_DFL});
    uint64_t more;
    memcpy(&more, &action.sa_mask, sizeof more);
    to->mask = own_stack_mask(context, own) | (more & ~libc_internal) |
               (action.sa_flags & SA_NODEFER ? 0 : ours);
    to->distance = own ? own_stack_move(frame, own, action.sa_flags & SA_ONSTACK) : 0;
    to->handler = *(void *const *)&action.sa_handler;
}

/* A handler for an alternate stack or of faults is installed as a stub, and told as what it is. */
static int act_on_own_stack(int number, const struct sigaction *action, struct sigaction *old)
{
    struct sigaction copy;
    uint64_t mask, before = own_stack_said_mask(number);
    if (action) {
        copy = *action;
        memcpy(&mask, &copy.sa_mask, sizeof mask);
        own_stack_take_action(number, (void **)&copy.sa_handler, &mask, (unsigned)copy.sa_flags);
        memcpy(&copy.sa_mask, &mask, sizeof mask);
        action = &copy;
    }
    int status = masks_real_sigaction(number, action, old);
    if (old && status == 0) {
        memcpy(&mask, &old->sa_mask, sizeof mask);
        own_stack_say_action((void **)&old->sa_handler, &mask, before);
        memcpy(&old->sa_mask, &mask, sizeof mask);
    }
    return status;
}

/* Under the lock. */
static int set_action(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number == SAMPLE_SIGNAL) {
        struct sigaction before = program_action;
        if (action)
            use_action(action);
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
    }
    int status = act_on_own_stack(number, action ? &copy : NULL, old);
    if (old && status == 0) {
        sigdelset(&old->sa_mask, SAMPLE_SIGNAL);
        if (asked_before)
            sigaddset(&old->sa_mask, SAMPLE_SIGNAL);
    }
    return status;
}

EXPORTED int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (number < 1 || number > MOST_SIGNALS)
        return masks_real_sigaction(number, action, old);
    if (!guest->arena)
        return act_on_own_stack(number, action, old);
    if (has_borrowed_memory()) /* a child of vfork says nothing of its parent's handlers */
        return number == SAMPLE_SIGNAL ? 0 : act_on_own_stack(number, action, old);
    uint64_t mask = lock_actions();
    int status = set_action(number, action, old);
    unlock_actions(mask);
    return status;
}

/*
 * The older ways to install a handler do not go through sigaction: a program that puts all signals
 * back to their defaults must not die of ours.
 */
static sighandler_t install(sighandler_t (*real)(int, sighandler_t), int number,
                            sighandler_t handler)
{
    uint64_t mask = 0; /* these have no SA_ONSTACK: it is as libc sets it */
    own_stack_take_action(number, (void **)&handler, &mask, 0);
    sighandler_t old = real(number, handler);
    own_stack_say_action((void **)&old, &mask, 0);
    return old;
}

static sighandler_t older_way(sighandler_t (*real)(int, sighandler_t), int number,
                              sighandler_t handler)
{
    if (!guest->arena || (has_borrowed_memory() && number != SAMPLE_SIGNAL))
        return install(real, number, handler);
    uint64_t mask = lock_actions();
    sighandler_t before = program_action.sa_handler;
    if (number == SAMPLE_SIGNAL)
        use_action(&(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART});
    else
        before = install(real, number, handler);
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
    return install(real, number, handler);
}
