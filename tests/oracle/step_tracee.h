/*
 * A traced thread: launched, run freely, or moved on by one instruction.
 */
#ifndef STEP_TRACEE_H
#define STEP_TRACEE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum stop_kind {
    STOP_STEP,   /* one instruction further, or at the first one of a signal's handler */
    STOP_SIGNAL, /* a signal is about to be delivered; `deliver` holds it */
    STOP_EXEC,   /* at the first instruction of a new program */
    STOP_VFORK,  /* inside vfork; the child is stopped too */
    STOP_EVENT,  /* stopped because we asked, or for a reason that does not matter here */
    STOP_GONE,   /* exited or killed; `status` says how */
};

struct tracee {
    pid_t pid;
    struct user_regs_struct regs; /* as of the last stop */
    int deliver;                  /* signal to inject when it goes on, or 0 */
    int status;
};

struct launch {
    char *const *argv;
    const char *stdout_path; /* NULL: ours */
    int cpu;                 /* the core for both processes, or -1 */
};

/* Starts a program, without address randomisation, and stops it at its first instruction. */
int tracee_launch(struct tracee *tracee, const struct launch *launch, struct ct_error *err);

/* Takes hold of a program that runs already, and stops it. */
int tracee_attach(struct tracee *tracee, pid_t pid, int cpu, struct ct_error *err);

/*
 * Executes one instruction, or enters the handler of the signal that is to be delivered. An
 * instruction that may itself cause SIGTRAP (int3, or a system call that sends it) has to be named.
 */
enum stop_kind tracee_step(struct tracee *tracee, bool may_be_own_trap);

/* Waits for a child that vfork has just made, given its stopped parent. */
int tracee_take_child(const struct tracee *parent, struct tracee *child, struct ct_error *err);

/*
 * Lets the program run freely until it has used cpu_ns more of processor time (or until ten seconds
 * have passed: it may be waiting for something).
 */
enum stop_kind tracee_run(struct tracee *tracee, uint64_t cpu_ns);

/* Lets the program run freely until it is about to execute the instruction at address. */
enum stop_kind tracee_run_to(struct tracee *tracee, uint64_t address);

/* Processor time that the process has used so far, in nanoseconds. */
uint64_t tracee_cpu_ns(const struct tracee *tracee);

void tracee_detach(struct tracee *tracee);
void tracee_kill(struct tracee *tracee);

#endif
