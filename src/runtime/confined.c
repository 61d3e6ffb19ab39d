#include "runtime/confined.h"

#include "runtime/status.h"
#include "unwind/memory.h"

bool has_filter; /* a child inherits the filter, and these */
bool calls_are_forbidden;
static bool is_traced;

bool is_confined(void)
{
    return has_filter;
}

static unsigned expected_filters; /* those of the supervisor, which all that it starts have */

void confined_expect(unsigned filters)
{
    expected_filters = filters;
}

/*
 * A filter that was installed by a system call in the program's own code, or before this program
 * began. Where another program is about to be started or has just been, the calls that this makes
 * are allowed: the dynamic linker needs them. Nothing is noted: this may be a child of vfork.
 */
bool confined_by_others(void)
{
    return status_read().filters > expected_filters;
}

/* In a process of its own, from the start or after a fork. */
bool confined_look(void)
{
    if (has_filter)
        return true;
    struct process_status now = status_read();
    is_traced = now.tracer != 0;
    if (now.filters > expected_filters) {
        has_filter = calls_are_forbidden = true;
        memory_may_be_asked = false;
    }
    return has_filter;
}

bool is_debugged(void)
{
    return is_traced;
}
