#include "runtime/guest.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"

#include <sys/mman.h>
#include <sys/syscall.h>

static struct guest no_guest; /* before the start, and where there is no memory */
struct guest *guest = &no_guest;

bool guest_begin(void)
{
    void *page = raw_mmap(PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!page || raw_syscall3(SYS_madvise, (long)page, PAGE_BYTES, MADV_WIPEONFORK) < 0)
        return false;
    guest = page;
    return true;
}

bool has_borrowed_memory(void)
{
    return guest->arena && guest->arena->pid != (uint32_t)raw_syscall3(SYS_getpid, 0, 0, 0);
}
