#include "runtime/thread.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

__thread struct thread *thread_current
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

void thread_give_way(void)
{
    if (!is_confined())
        raw_syscall3(SYS_sched_yield, 0, 0, 0);
}

struct thread *threads_lock(void)
{
    while (__atomic_exchange_n((uint32_t *)&guest->thread_list_lock, 1, __ATOMIC_ACQUIRE))
        thread_give_way();
    return guest->threads;
}

void threads_unlock(void)
{
    __atomic_store_n((uint32_t *)&guest->thread_list_lock, 0, __ATOMIC_RELEASE);
}

bool thread_grow(struct thread *t, uint32_t frames)
{
    struct thread_stack *s = &t->stack;
    size_t bytes = frames * (sizeof *s->past + 2 * sizeof *s->frames + sizeof *t->nodes);
    void *memory = is_confined() || frames > THREAD_MOST_FRAMES
                       ? NULL
                       : raw_mmap(bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!memory)
        return false;
    /* The old arrays stay: the sample may have interrupted a return that is reading them. */
    t->array_bytes = bytes;
    s->room = frames;
    s->past_count = s->kept = s->count = 0;
    s->past = memory;
    s->frames = (void *)(s->past + frames);
    s->fresh = s->frames + frames;
    t->nodes = (void *)(s->fresh + frames);
    return true;
}

void thread_read_name(struct thread *t)
{
    raw_syscall3(SYS_prctl, PR_GET_NAME, (long)t->record->name, 0);
}

/* Is a thread in the middle of charging (charge.h), seen from another one? */
static bool is_charging(const struct thread *thread)
{
    return __atomic_load_n(&thread->charging_at, __ATOMIC_ACQUIRE) != 0;
}

/*
 * A handler ends. A thread that charges an event may have been taken out of that for good, by a
 * signal whose handler jumped elsewhere: it is waited for, but not for ever.
 */
void threads_wait_for_handlers(void)
{
    enum { LONGEST_NS = 2000000000 };
    threads_lock();
    for (struct thread *t = guest->threads; t; t = t->next) {
        while (t != thread_current && t->busy)
            thread_give_way();
        if (t == thread_current || !is_charging(t))
            continue;
        uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
        while (is_charging(t) && clock_ns(CLOCK_MONOTONIC) - start_ns < LONGEST_NS)
            thread_give_way();
    }
    threads_unlock();
}

uint64_t thread_stack_top(uint32_t tid)
{
    /* Who holds the lock may be the thread that this one interrupted. */
    if (__atomic_exchange_n((uint32_t *)&guest->thread_list_lock, 1, __ATOMIC_ACQUIRE))
        return 0;
    const struct thread *t = guest->threads;
    while (t && t->tid != tid)
        t = t->next;
    uint64_t top = t ? t->first_sp : 0;
    threads_unlock();
    return top;
}
