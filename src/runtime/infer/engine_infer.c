/* Engine `infer` works from outside, and nothing of it runs in the program; but with --resize. */
#include "runtime/edit/edit.h"
#include "runtime/engine.h"
#include "runtime/infer/growing.h"

static void edit_loaded(struct edit_request *module)
{
    edit_module(module, &growing_stubs);
}

const struct engine engine_infer = {
    .module_loaded = edit_loaded, .sample = heights_sample, .leave_code = heights_leave_code};
