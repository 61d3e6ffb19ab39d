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

/* Frames come and go in the same places meanwhile, and no stub runs. */
static void pause(void)
{
    edit_pause();
    encode_rest(true);
}

static void go_on(void)
{
    edit_resume();
    encode_rest(false);
}

static void rest(struct thread *thread, uint64_t sp)
{
    (void)sp;
    if (!guest->arena->detach)
        return;
    if (!encode_rests())
        encode_rest(true);
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
                                     .pauses = pause,
                                     .goes_on = go_on,
                                     .rests = rest};
