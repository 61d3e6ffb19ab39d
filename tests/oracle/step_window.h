/*
 * The true stack in the middle of a program, where no calls were watched: from libdwfl, an unwinder
 * that shares no code with ours.
 */
#ifndef STEP_WINDOW_H
#define STEP_WINDOW_H

#include "step_truth.h"

#include "base/error.h"

/* The program's entry point, as the kernel told it; 0 if that cannot be found out. */
uint64_t window_entry_point(pid_t pid);

/*
 * Adds to the empty truth of a stopped thread. Fails, saying why, if libdwfl cannot walk to the
 * program's first function or if a return address is not where it says.
 */
int window_stack(struct truth *truth, pid_t pid, const struct user_regs_struct *regs,
                 struct ct_error *err);

#endif
