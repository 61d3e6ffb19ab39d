#include "runtime/time_stamps.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"
#include "runtime/engine.h"

#include <linux/prctl.h>

bool time_stamps_are_forbidden;

void time_stamps_forbid(void)
{
    time_stamps_are_forbidden = true;
    ENGINE_CALL(time_stamps_go);
}

/*
 * The program may forbid it for a thread by a call that we do not see, so the kernel is asked,
 * where that is allowed: a fault in a handler would be the end of the program.
 */
uint64_t time_stamp_or_0(void)
{
    int how = PR_TSC_ENABLE;
    if (!is_confined())
        raw_syscall3(SYS_prctl, PR_GET_TSC, (long)&how, 0);
    return how == PR_TSC_SIGSEGV || time_stamps_are_forbidden ? 0 : time_stamp();
}
