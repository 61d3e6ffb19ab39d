/*
 * What threads that have ended leave behind, to be used again: their structures, and, when many
 * have ended, what they have measured, too.
 *
 * The first threads of a process that end keep their records for themselves. A server starts any
 * number of others, and what they leave would fill the arena: a thread that begins goes on with the
 * record and the tree of one that has ended, of the same function if there is one. So the arena
 * holds as many records as threads have lived at a time, and memory that is not freed yet stays
 * where it is charged to.
 */
#include "runtime/threads_ended.h"

#include "arch/x86_64/syscall.h"
#include "runtime/channel_format.h"
#include "runtime/confined.h"
#include "runtime/engine.h"
#include "runtime/thread.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { MOST_APART = 1000, MOST_APART_BYTES = 64 << 20, MOST_LOOKED_AT = 1024 };

/* Both under the lock of the list of threads. */
static struct thread *unused; /* without a record */
static struct thread *ended;  /* with one that another thread goes on with; the latest first */

void threads_ended_forget(void)
{
    unused = ended = NULL; /* what they point to is the parent's */
}

/* No copy of it is made: the thread's stack may be small. */
static void clear(struct thread *t)
{
    size_t bytes = t->array_bytes;
    struct own_stack *own = t->own_stack;
    struct arena_thread *record = t->record;
    void *of_engine = t->of_engine;
    struct cct tree = t->tree;
    struct arena_times *times = t->times; /* the record's: what is left of it is used */
    uint32_t owed[ARENA_LOSSES];          /* the record's next sample stands for them */
    memcpy(owed, t->owed, sizeof owed);
    uint32_t *nodes = t->nodes, room = t->stack.room;
    struct walk_past_frame *past = t->stack.past;
    struct walk_frame *frames = t->stack.frames, *fresh = t->stack.fresh;
    memset(t, 0, sizeof *t);
    t->array_bytes = bytes;
    t->own_stack = own;
    if (record) {
        t->record = record;
        t->of_engine = of_engine;
        t->tree = tree;
        t->times = times;
        memcpy(t->owed, owed, sizeof owed);
    }
    t->nodes = nodes;
    t->stack.room = room;
    t->stack.past = past;
    t->stack.frames = frames;
    t->stack.fresh = fresh;
}

static struct thread *new_thread(void)
{
    struct thread *t = raw_mmap(sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (t && !thread_grow(t, THREAD_FIRST_FRAMES)) {
        raw_syscall3(SYS_munmap, (long)t, sizeof *t, 0);
        t = NULL;
    }
    return t;
}

struct thread *thread_take(void)
{
    threads_lock();
    struct thread *t = unused;
    if (t)
        unused = t->next;
    threads_unlock();
    if (t)
        clear(t);
    return t ? t : new_thread();
}

struct thread *thread_take_for(const void *start)
{
    uint32_t count = 0;
    threads_lock();
    struct thread **at = &ended;
    while (*at && (*at)->kind != start && count < MOST_LOOKED_AT) {
        at = &(*at)->next;
        count++;
    }
    if (count == MOST_LOOKED_AT) /* there is no end of functions: the latest will do */
        at = &ended;
    struct thread *t = *at;
    if (t)
        *at = t->next;
    threads_unlock();
    if (t)
        clear(t);
    else
        t = thread_take();
    if (t)
        t->kind = start;
    return t;
}

void thread_keep(struct thread *t)
{
    threads_lock();
    struct thread **list = t->record ? &ended : &unused;
    t->next = *list;
    *list = t;
    threads_unlock();
}

bool thread_will_go_on(const struct thread *t)
{
    if ((guest->flags & CHANNEL_APART) || is_confined() || !t->record)
        return false;
    return t->record->lives > 1 || guest->arena->used > MOST_APART_BYTES ||
           __atomic_add_fetch(&guest->threads_apart, 1, __ATOMIC_RELAXED) > MOST_APART;
}

/* From the end of the last one, as far as the supervisor measured then. */
static uint64_t absent_since_ns(const struct arena_thread *record, uint64_t now_ns)
{
    uint64_t from_ns = record->end_ns, said_ns = guest->arena->paused_since_ns;
    if (guest->arena->paused)
        now_ns = said_ns;
    else if (from_ns < said_ns)
        from_ns = said_ns;
    return now_ns > from_ns ? now_ns - from_ns : 0;
}

void thread_goes_on(struct thread *t)
{
    struct arena_thread *record = t->record;
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), paused_ns = arena_paused_ns(guest->arena, now_ns);
    memcpy(t->name_before, record->name, sizeof t->name_before);
    record->absent_ns += absent_since_ns(record, now_ns);
    if (paused_ns > record->paused_ns) /* while there was none, which is absence already */
        record->paused_before_ns += paused_ns - record->paused_ns;
    record->waits_in = 0;
    record->lives++;
    record->tid = t->tid;
    record->end_ns = 0;
}
