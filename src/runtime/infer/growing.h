/* Calls before which the stack grows: engine infer, with --resize. */
#ifndef RUNTIME_INFER_GROWING_H
#define RUNTIME_INFER_GROWING_H

#include "runtime/edit/stubs.h"
#include "unwind/walk.h"

#include <ucontext.h>

struct thread;
struct walk_registers;

/* Leads through a call of the stub's own, which comes back there. */
extern const struct stub_writer growing_stubs;

/* Samples by two registers: see heights.c. */
bool heights_sample(struct thread *thread, const ucontext_t *context, uint64_t ticks);

enum walk_left heights_leave_code(struct walk_registers *registers, uint64_t *restored_below);

#endif
