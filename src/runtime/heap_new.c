/*
 * Stand-ins for C++'s operators new and delete. Those of libstdc++ call malloc and free, which are
 * counted; an allocator of the program's own may have operators that do not, and then these are.
 */
#include "runtime/heap.h"
#include "runtime/standins.h"

#include <stdlib.h>

/* A program whose libraries are not there for all (dlopen) may have the operators of one of them:
 * they cannot be found, and malloc is what they call. */
static void *new_without(size_t bytes, size_t alignment)
{
    void *memory =
        alignment ? aligned_alloc(alignment, bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
    if (!memory)
        abort(); /* an exception, if we knew how */
    return memory;
}

#define NEW(name, alignment_wanted, parameters, arguments)                                         \
    void *name parameters;                                                                         \
    STANDS_IN_FOR(void *, name, parameters)                                                        \
    EXPORTED void *name parameters                                                                 \
    {                                                                                              \
        if (!REAL(name))                                                                           \
            return new_without(bytes, alignment_wanted);                                           \
        const struct memory_points before = memory_points;                                         \
        void *memory = real_##name arguments;                                                      \
        if (memory_points.left == before.left && memory_points.calls == before.calls)              \
            heap_count(memory, bytes, (const void *)real_##name);                                  \
        return memory;                                                                             \
    }

#define DELETE(name, parameters, arguments)                                                        \
    void name parameters;                                                                          \
    STANDS_IN_FOR(void, name, parameters)                                                          \
    EXPORTED void name parameters                                                                  \
    {                                                                                              \
        heap_give_back(memory);                                                                    \
        if (REAL(name))                                                                            \
            real_##name arguments;                                                                 \
        else                                                                                       \
            free(memory);                                                                          \
    }

/* Their mangled names: w is new, a is new[]; m a size, St11align_val_t an alignment,
 * RKSt9nothrow_t the word std::nothrow. */
NEW(_Znwm, 0, (size_t bytes), (bytes))
NEW(_Znam, 0, (size_t bytes), (bytes))
NEW(_ZnwmRKSt9nothrow_t, 0, (size_t bytes, const void *word), (bytes, word))
NEW(_ZnamRKSt9nothrow_t, 0, (size_t bytes, const void *word), (bytes, word))
NEW(_ZnwmSt11align_val_t, alignment, (size_t bytes, size_t alignment), (bytes, alignment))
NEW(_ZnamSt11align_val_t, alignment, (size_t bytes, size_t alignment), (bytes, alignment))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, alignment,
    (size_t bytes, size_t alignment, const void *word), (bytes, alignment, word))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, alignment,
    (size_t bytes, size_t alignment, const void *word), (bytes, alignment, word))
DELETE(_ZdlPv, (void *memory), (memory))
DELETE(_ZdaPv, (void *memory), (memory))
DELETE(_ZdlPvm, (void *memory, size_t bytes), (memory, bytes))
DELETE(_ZdaPvm, (void *memory, size_t bytes), (memory, bytes))
DELETE(_ZdlPvRKSt9nothrow_t, (void *memory, const void *word), (memory, word))
DELETE(_ZdaPvRKSt9nothrow_t, (void *memory, const void *word), (memory, word))
DELETE(_ZdlPvSt11align_val_t, (void *memory, size_t alignment), (memory, alignment))
DELETE(_ZdaPvSt11align_val_t, (void *memory, size_t alignment), (memory, alignment))
DELETE(_ZdlPvmSt11align_val_t, (void *memory, size_t bytes, size_t alignment),
       (memory, bytes, alignment))
DELETE(_ZdaPvmSt11align_val_t, (void *memory, size_t bytes, size_t alignment),
       (memory, bytes, alignment))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *memory, size_t alignment, const void *word),
       (memory, alignment, word))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *memory, size_t alignment, const void *word),
       (memory, alignment, word))
