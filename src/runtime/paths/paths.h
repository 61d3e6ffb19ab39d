/*
 * Engine `paths`: functions are relocated by plans that were made before (flow/flow_plan.h).
 *
 *   copies.c     applies the plan of a module: its copies, and the jumps to them
 *   counters.c   where threads count, and their mirrors of the stack
 */
#ifndef RUNTIME_PATHS_H
#define RUNTIME_PATHS_H

#include "runtime/edit/edited_module.h"
#include "runtime/paths/paths_format.h"
#include "unwind/walk.h"

#include <ucontext.h>

struct thread;

enum { COPIES_MOST = 1024 };

/* A module with functions that have been relocated. Its number is its place in the tables. */
struct copied_module {
    uint64_t base, end;
    uint32_t module_id;
    uint64_t counter_count;
    struct region region;
    const void *plan; /* NULL: not in use */
    uint64_t plan_bytes;
    const struct plan_piece *pieces;
    uint32_t piece_count;
    const struct plan_hook *hooks;
    uint32_t hook_count;
    const struct plan_routine *routines;
    uint32_t routine_count;
    uint32_t lost_counter;
};

void copies_edit(struct edit_request *request);
void copies_unload(uint64_t start, uint64_t end);
const struct copied_module *copies_at(uint32_t number); /* NULL: none */

/* As in struct engine. */
enum walk_left copies_leave(struct walk_registers *registers, uint64_t *restored_below);
void copies_enter(ucontext_t *context);

/* What copies read at a fixed distance from %fs: a thread's counters of each module, and its
 * mirror. */
extern __thread uint64_t *const *paths_table
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern __thread uint64_t *paths_mirror
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* A module's number has counters now: those for threads that are not known, and then each thread's
 * own. False: there is no memory. */
bool counters_add(uint32_t number, uint64_t count, uint32_t module_id);
void counters_remove(uint32_t number);
void counters_thread_begins(struct thread *thread);
void counters_thread_ends(struct thread *thread);
void counters_forked(void);

#endif
