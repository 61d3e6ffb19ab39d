/* Engine `exact`: when what happens. */
#include "runtime/edit/detach.h"
#include "runtime/edit/edit.h"
#include "runtime/edit/edited.h"
#include "runtime/edit/pause.h"
#include "runtime/engine.h"
#include "runtime/exact/agrees.h"
#include "runtime/exact/burst.h"
#include "runtime/exact/counting.h"
#include "runtime/exact/exact.h"
#include "runtime/exact/records.h"
#include "runtime/exact/timing.h"
#include "runtime/exact/timing_stubs.h"
#include "runtime/sample/sample.h"

/* Stubs keep addresses of records in four bytes. */
static void begin_process(void)
{
    if ((uint64_t)guest->arena >= ARENA_LOW_END)
        guest->arena->is_too_high = ARENA_WITHOUT_ROOM;
}

static void edit_loaded(struct edit_request *module)
{
    if ((uint64_t)guest->arena < ARENA_LOW_END)
        edit_module(module, timing_is_on() ? &timing_stubs : &counting_stubs);
}

static bool wants_ticks(void)
{
    return exact_settings()->burst_ns;
}

static bool take_tick(struct thread *thread)
{
    if (!exact_settings()->burst_ns)
        return false;
    burst_tick(thread);
    return true;
}

static void pause(void)
{
    exact_pauses();
    edit_pause();
}

static void go_on(void)
{
    if (edit_resume())
        exact_goes_on();
}

static void rest(struct thread *thread, uint64_t sp)
{
    (void)sp;
    if (guest->arena->detach)
        edit_detach(thread);
}

const struct engine engine_exact = {.wants_low_arena = true,
                                    .process_begins = begin_process,
                                    .process_ends = exact_process_ends,
                                    .forked = exact_forget,
                                    .arena_moved = exact_arena_moved,
                                    .time_stamps_go = timing_time_stamps_go,
                                    .module_loaded = edit_loaded,
                                    .module_unloaded = records_forget_targets,
                                    .thread_begins = timing_thread_begins,
                                    .thread_ends = exact_thread_ends,
                                    .wants_ticks = wants_ticks,
                                    .tick = take_tick,
                                    .sample = sample_take,
                                    .leave_code = exact_leave_code,
                                    .enter_code = edited_enter,
                                    .agrees = exact_agrees,
                                    .pauses = pause,
                                    .goes_on = go_on,
                                    .rests = rest};
