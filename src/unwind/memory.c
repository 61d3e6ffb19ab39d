#include "unwind/memory.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"

#include <errno.h>
#include <sys/syscall.h>

enum { NO_SUCH_HOW = -1, KERNEL_SIGSET_BYTES = 8 };

/*
 * Can the 8 bytes at this address be read? rt_sigprocmask reads the set before it looks at what is
 * to be done with it: EFAULT says that it could not, EINVAL that it could and that "how" is
 * nonsense, so nothing is changed. A program that filters system calls nearly always allows this
 * one: signal handling in libc needs it.
 */
bool memory_may_be_asked = true;

bool memory_can_be_read(uint64_t address)
{
    return memory_may_be_asked && raw_syscall4(SYS_rt_sigprocmask, NO_SUCH_HOW, (long)address, 0,
                                               KERNEL_SIGSET_BYTES) == -EINVAL;
}

static bool find_page(struct walk_memory *m, uint64_t address)
{
    if (address + 8 < address || !memory_can_be_read(address))
        return false;
    uint64_t start = page_start(address);
    uint64_t end = ((address + 7) | (PAGE_BYTES - 1)) + 1;
    /* Stacks are walked upwards: a page that continues the known range joins it. */
    m->start = start == m->end && m->end ? m->start : start;
    m->end = end;
    return true;
}

struct walk_memory memory_of_this_process(uint64_t start, uint64_t end)
{
    return (struct walk_memory){.start = start, .end = end, .find_memory = find_page};
}
