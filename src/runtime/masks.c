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
#include <sys/syscall.h>

#define EXPORTED __attribute__((visibility("default")))

enum { KERNEL_SIGSET_BYTES = 8, MOST_SIGNALS = 64 };

#define BIT(signal) (UINT64_C(1) << ((signal)-1))

static const uint64_t libc_internal = BIT(32) | BIT(33);
static const uint64_t ours = BIT(SAMPLE_SIGNAL);

/* Does the program think that it has blocked our signal? */
static __thread bool thinks_blocked __attribute__((tls_model("initial-exec")));

static bool asked_to_block[MOST_SIGNALS + 1]; /* by the mask of each signal's action */
static bool has_small_stacks;
static struct sigaction program_action; /* what the program thinks that it has installed for it */
static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);

static int change_mask(int how, const sigset_t *set, sigset_t *old)
{
    uint64_t wanted = 0, before = 0;
    if (set) {
        memcpy(&wanted, set, sizeof wanted);
        wanted &= ~(libc_internal | ours);
    }
    long status = raw_syscall4(SYS_rt_sigprocmask, how, set ? (long)&wanted : 0, (long)&before,
                               KERNEL_SIGSET_BYTES);
    if (status < 0)
        return (int)-status;
    if (old) {
        uint64_t told = (before & ~ours) | (thinks_blocked ? ours : 0);
        memset(old, 0, sizeof *old);
        memcpy(old, &told, sizeof told);
    }
    if (set) {
        uint64_t said;
        memcpy(&said, set, sizeof said);
        if (how == SIG_SETMASK)
            thinks_blocked = (said & ours) != 0;
        else if (said & ours)
            thinks_blocked = how == SIG_BLOCK;
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

/* Handlers that are there already are told, too. */
static void block_on_small_stacks(void)
{
    struct sigaction action;
    if (has_small_stacks || !guest->arena)
        return;
    has_small_stacks = true;
    for (int number = 1; number <= MOST_SIGNALS; number++) {
        if (number == SAMPLE_SIGNAL || masks_real_sigaction(number, NULL, &action) != 0 ||
            !(action.sa_flags & SA_ONSTACK) || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN)
            continue;
        sigaddset(&action.sa_mask, SAMPLE_SIGNAL);
        masks_real_sigaction(number, &action, NULL);
    }
}

/*
 * A handler on an alternate stack that has no room for a second signal frame runs with our signal
 * blocked (pitfall 5). Which thread will run the handler is not known, so one small stack is
 * enough.
 */
EXPORTED int sigaltstack(const stack_t *stack, stack_t *old)
{
    enum { ROOM_FOR_TWO = 16384 };
    if (stack && !(stack->ss_flags & SS_DISABLE) && stack->ss_size < ROOM_FOR_TWO)
        block_on_small_stacks();
    long status = raw_syscall3(SYS_sigaltstack, (long)stack, (long)old, 0);
    if (status < 0)
        errno = (int)-status;
    return status < 0 ? -1 : 0;
}

EXPORTED int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
    if (!guest->arena || number < 1 || number > MOST_SIGNALS)
        return masks_real_sigaction(number, action, old);
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
        if ((copy.sa_flags & SA_ONSTACK) && has_small_stacks)
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
