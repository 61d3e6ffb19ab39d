/*
 * A program may limit its own address space, and count on what that leaves it. What an engine has
 * reserved there and can do without is given back then.
 */
#undef _FILE_OFFSET_BITS /* setrlimit and setrlimit64 are two functions */
#include "runtime/limits.h"

#include "arch/x86_64/syscall.h"
#include "runtime/arena_map.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/standins.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>

static uint64_t limit_now(int resource)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    raw_syscall4(SYS_prlimit64, 0, resource, 0, (long)&limit);
    return limit.rlim_cur;
}

/* RLIMIT_DATA is about private memory alone, which is all that engines take for themselves. */
uint64_t limit_of_memory(void)
{
    uint64_t all = arena_limit(), private = limit_now(RLIMIT_DATA);
    return all < private ? all : private;
}

static void look(int resource, int status)
{
    bool is_memory = resource == RLIMIT_AS || resource == RLIMIT_DATA;
    if (status == 0 && is_memory && guest && guest->arena && !is_confined() &&
        !has_borrowed_memory()) {
        arena_limited();
        ENGINE_CALL(limited);
    }
}

#define SETS(name, limit_type)                                                                     \
    STANDS_IN_FOR(int, name, (__rlimit_resource_t, const limit_type *))                            \
    EXPORTED int name(__rlimit_resource_t resource, const limit_type *limit)                       \
    {                                                                                              \
        int status = REAL(name)(resource, limit);                                                  \
        look((int)resource, status);                                                               \
        return status;                                                                             \
    }

SETS(setrlimit, struct rlimit)
SETS(setrlimit64, struct rlimit64)

#define ASKS(name, limit_type)                                                                     \
    STANDS_IN_FOR(int, name, (pid_t, enum __rlimit_resource, const limit_type *, limit_type *))    \
    EXPORTED int name(pid_t pid, enum __rlimit_resource resource, const limit_type *limit,         \
                      limit_type *old)                                                             \
    {                                                                                              \
        int status = REAL(name)(pid, resource, limit, old);                                        \
        if (limit)                                                                                 \
            look((int)resource, status);                                                           \
        return status;                                                                             \
    }

ASKS(prlimit, struct rlimit)
ASKS(prlimit64, struct rlimit64)
