/* Engine `paths`: when what happens. */
#include "runtime/engine.h"
#include "runtime/paths/paths.h"
#include "runtime/sample/sample.h"

static void unloaded(uint64_t start, uint64_t end, uint64_t since)
{
    (void)since;
    copies_unload(start, end);
}

const struct engine engine_paths = {.forked = counters_forked,
                                    .module_loaded = copies_edit,
                                    .module_unloaded = unloaded,
                                    .thread_begins = counters_thread_begins,
                                    .thread_ends = counters_thread_ends,
                                    .sample = sample_take,
                                    .leave_code = copies_leave,
                                    .enter_context = copies_enter};
