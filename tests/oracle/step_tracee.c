#include "step_tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEP_OPTIONS = PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC, LONGEST_WAIT_SECONDS = 10 };

static void pin_to(pid_t pid, int cpu)
{
    if (cpu < 0)
        return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)cpu, &one);
    sched_setaffinity(pid, sizeof one, &one);
}

static _Noreturn void become(const struct launch *launch, int go)
{
    char byte;
    if (read(go, &byte, 1) != 1)
        _exit(127);
    close(go);
    if (launch->stdout_path) {
        int fd = open(launch->stdout_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
            _exit(127);
        close(fd);
    }
    personality(ADDR_NO_RANDOMIZE);
    execvp(launch->argv[0], launch->argv);
    _exit(127);
}

static bool get_regs(struct tracee *tracee)
{
    return ptrace(PTRACE_GETREGS, tracee->pid, NULL, &tracee->regs) == 0;
}

/* A SIGTRAP that the program itself caused, by int3 or by sending it, is a signal like any other.
 */
static bool is_own_trap(const struct tracee *tracee)
{
    siginfo_t info;
    if (ptrace(PTRACE_GETSIGINFO, tracee->pid, NULL, &info) != 0)
        return false;
    return info.si_code <= 0 || info.si_code == SI_KERNEL;
}

static enum stop_kind take_stop(struct tracee *tracee, bool may_be_own_trap)
{
    int status;
    while (waitpid(tracee->pid, &status, __WALL) < 0) {
        if (errno != EINTR)
            return STOP_GONE;
    }
    tracee->status = status;
    tracee->deliver = 0;
    uint64_t old_pc = tracee->regs.rip;
    if (!WIFSTOPPED(status) || !get_regs(tracee))
        return STOP_GONE;
    switch (status >> 16) {
    case 0:
        break;
    case PTRACE_EVENT_EXEC:
        return STOP_EXEC;
    case PTRACE_EVENT_VFORK:
        return STOP_VFORK;
    default:
        return STOP_EVENT;
    }
    may_be_own_trap |= tracee->regs.rip == old_pc;
    if (WSTOPSIG(status) == SIGTRAP && !(may_be_own_trap && is_own_trap(tracee)))
        return STOP_STEP;
    tracee->deliver = WSTOPSIG(status);
    return STOP_SIGNAL;
}

int tracee_launch(struct tracee *tracee, const struct launch *launch, struct ct_error *err)
{
    int go[2];
    if (pipe2(go, O_CLOEXEC) != 0)
        return ct_fail_errno(err, errno, "no pipe");
    pin_to(0, launch->cpu);
    pid_t pid = fork();
    if (pid < 0) {
        int why = errno;
        close(go[0]);
        close(go[1]);
        return ct_fail_errno(err, why, "no process");
    }
    if (pid == 0)
        become(launch, go[0]);
    close(go[0]);
    *tracee = (struct tracee){.pid = pid};
    if (ptrace(PTRACE_SEIZE, pid, NULL, STEP_OPTIONS | PTRACE_O_TRACEVFORK) != 0) {
        int why = errno;
        close(go[1]);
        return ct_fail_errno(err, why, "the program cannot be traced");
    }
    bool released = write(go[1], "", 1) == 1;
    close(go[1]);
    enum stop_kind stop = released ? take_stop(tracee, false) : STOP_GONE;
    if (stop != STOP_EXEC)
        return ct_fail(err, "%s: cannot be started", launch->argv[0]);
    return CT_OK;
}

int tracee_attach(struct tracee *tracee, pid_t pid, int cpu, struct ct_error *err)
{
    *tracee = (struct tracee){.pid = pid};
    pin_to(0, cpu);
    if (ptrace(PTRACE_SEIZE, pid, NULL, STEP_OPTIONS) != 0)
        return ct_fail_errno(err, errno, "process %d cannot be traced", (int)pid);
    pin_to(pid, cpu);
    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
    enum stop_kind stop;
    while ((stop = take_stop(tracee, true)) == STOP_SIGNAL || stop == STOP_EXEC)
        ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)tracee->deliver);
    return stop == STOP_EVENT ? CT_OK : ct_fail(err, "process %d is gone", (int)pid);
}

enum stop_kind tracee_step(struct tracee *tracee, bool may_be_own_trap)
{
    int deliver = tracee->deliver;
    tracee->deliver = 0;
    if (ptrace(PTRACE_SINGLESTEP, tracee->pid, NULL, (void *)(intptr_t)deliver) != 0)
        return STOP_GONE;
    return take_stop(tracee, may_be_own_trap && deliver == 0);
}

int tracee_take_child(const struct tracee *parent, struct tracee *child, struct ct_error *err)
{
    unsigned long pid = 0;
    if (ptrace(PTRACE_GETEVENTMSG, parent->pid, NULL, &pid) != 0)
        return ct_fail_errno(err, errno, "the child of vfork cannot be found");
    *child = (struct tracee){.pid = (pid_t)pid};
    if (take_stop(child, false) == STOP_GONE)
        return ct_fail(err, "the child of vfork is gone");
    child->deliver = 0;
    return CT_OK;
}

uint64_t tracee_cpu_ns(const struct tracee *tracee)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(tracee->pid, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Goes on without stepping, and without stopping its children. */
static bool go_on(struct tracee *tracee)
{
    int deliver = tracee->deliver;
    tracee->deliver = 0;
    ptrace(PTRACE_SETOPTIONS, tracee->pid, NULL, (void *)STEP_OPTIONS);
    return ptrace(PTRACE_CONT, tracee->pid, NULL, (void *)(intptr_t)deliver) == 0;
}

/* From a stop on, those children that run on its stack are traced again. */
static void step_children_too(struct tracee *tracee)
{
    ptrace(PTRACE_SETOPTIONS, tracee->pid, NULL, (void *)(STEP_OPTIONS | PTRACE_O_TRACEVFORK));
}

enum stop_kind tracee_run(struct tracee *tracee, uint64_t cpu_ns)
{
    uint64_t until_ns = tracee_cpu_ns(tracee) + cpu_ns;
    time_t give_up = time(NULL) + LONGEST_WAIT_SECONDS;
    if (!go_on(tracee))
        return STOP_GONE;
    bool asked = false;
    for (;;) {
        siginfo_t info = {0};
        uint64_t now_ns = tracee_cpu_ns(tracee);
        if (!asked && (now_ns >= until_ns || time(NULL) > give_up)) {
            ptrace(PTRACE_INTERRUPT, tracee->pid, NULL, NULL);
            asked = true;
        }
        if (!asked &&
            waitid(P_PID, (id_t)tracee->pid, &info,
                   WEXITED | WSTOPPED | WNOWAIT | WNOHANG | __WALL) == 0 &&
            info.si_pid == 0) {
            uint64_t left_ns = until_ns - now_ns;
            struct timespec pause = {0, left_ns > 5000000 ? 5000000 : (long)left_ns + 1000};
            nanosleep(&pause, NULL);
            continue;
        }
        enum stop_kind stop = take_stop(tracee, true);
        if (stop == STOP_GONE)
            return stop;
        if (asked && stop == STOP_EVENT) {
            step_children_too(tracee);
            return stop;
        }
        if (!go_on(tracee))
            return STOP_GONE;
    }
}

enum stop_kind tracee_run_to(struct tracee *tracee, uint64_t address)
{
    void *at = (void *)(uintptr_t)address;
    errno = 0;
    long old = ptrace(PTRACE_PEEKTEXT, tracee->pid, at, NULL);
    long with_int3 = (old & ~0xffL) | 0xcc;
    if (errno != 0 || ptrace(PTRACE_POKETEXT, tracee->pid, at, (void *)with_int3) != 0)
        return STOP_GONE;
    while (go_on(tracee)) {
        enum stop_kind stop = take_stop(tracee, true);
        if (stop == STOP_GONE)
            return stop;
        if (stop == STOP_SIGNAL && tracee->deliver == SIGTRAP && tracee->regs.rip == address + 1) {
            tracee->deliver = 0;
            tracee->regs.rip = address;
            ptrace(PTRACE_POKETEXT, tracee->pid, at, (void *)old);
            ptrace(PTRACE_SETREGS, tracee->pid, NULL, &tracee->regs);
            step_children_too(tracee);
            return STOP_EVENT;
        }
    }
    return STOP_GONE;
}

void tracee_detach(struct tracee *tracee)
{
    ptrace(PTRACE_DETACH, tracee->pid, NULL, (void *)(intptr_t)tracee->deliver);
}

void tracee_kill(struct tracee *tracee)
{
    int status;
    kill(tracee->pid, SIGKILL);
    while (waitpid(tracee->pid, &status, __WALL) > 0 && WIFSTOPPED(status))
        continue;
}
