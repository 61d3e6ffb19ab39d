/* Engine `encode`: when what happens. */
#include "runtime/edit/detach.h"
#include "runtime/edit/edit.h"
#include "runtime/edit/pause.h"
#include "runtime/encode/here.h"
#include "runtime/engine.h"

static void edit_loaded(struct edit_request *module)
{
    edit_module(module, &adding_stubs);
}

static void go_on(void)
{
    if (edit_resume())
        encode_forget_stacks(); /* frames may have come and gone in the same places */
}

static void rest(struct thread *thread, uint64_t sp)
{
    (void)sp;
    if (guest->arena->detach)
        edit_detach(thread);
}

const struct engine engine_encode = {.forked = encode_forget,
                                     .limited = encode_limited,
                                     .module_loaded = edit_loaded,
                                     .module_unloaded = encode_module_unloaded,
                                     .thread_made = encode_thread_made,
                                     .thread_ends = encode_thread_ends,
                                     .sample = encode_sample,
                                     .leave_code = encode_leave_code,
                                     .enter_code = edited_enter,
                                     .agrees = encode_agrees,
                                     .pauses = edit_pause,
                                     .goes_on = go_on,
                                     .rests = rest};
