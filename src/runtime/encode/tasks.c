/*
 * Work that is handed from thread to thread: the context of a snapshot, behind which a thread's own
 * calls stand. A thread begins as such a task, too: that of the call that made it.
 */
#include "runtime/encode/here.h"

#include "arch/x86_64/syscall.h"

#include <string.h>
#include <sys/mman.h>

enum { TASKS_BYTES = MOST_TASKS * sizeof(struct task) };

static bool is_same(const struct dictionary_snapshot *a, const struct dictionary_snapshot *b)
{
    return a->run == b->run && a->stamp == b->stamp && a->word == b->word && a->place == b->place &&
           a->task == b->task;
}

/* The number of a task that begins with a snapshot; it is looked for among the last ones first. */
static uint32_t number_of(struct encode_thread *t, const struct dictionary_snapshot *from)
{
    enum { LAST = 256 };
    struct task_state *tasks = &t->here->tasks;
    for (uint32_t i = tasks->count; i > 0 && tasks->count - i < LAST; i--)
        if (is_same(&tasks->tasks[i].from, from))
            return i;
    if (tasks->count + 1 >= MOST_TASKS)
        return TASK_UNKNOWN;
    struct dictionary_snapshot logged = *from;
    logged.place = encode_place_key(from->place);
    tasks->tasks[++tasks->count] = (struct task){.from = *from};
    return encode_log_task(t, &logged) ? tasks->count : TASK_UNKNOWN;
}

bool encode_tasks_begin(struct encode_thread *t)
{
    struct task_state *tasks = &t->here->tasks;
    tasks->tasks = raw_mmap(TASKS_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!tasks->tasks)
        return false;
    struct dictionary_snapshot origin;
    memcpy(&origin, t->thread->origin, sizeof origin);
    if (origin.run == encode_run(guest->arena))
        encode_reader.task = number_of(t, &origin);
    return true;
}

void encode_tasks_end(struct encode_thread *t)
{
    if (t->here->tasks.tasks)
        raw_syscall3(SYS_munmap, (long)t->here->tasks.tasks, TASKS_BYTES, 0);
}

static void begin_task(struct encode_thread *t, void *argument)
{
    const struct dictionary_snapshot *from = argument;
    if (!encode_here_ready(t))
        return;
    struct task_state *tasks = &t->here->tasks;
    if (tasks->depth < TASKS_NESTED)
        tasks->outer[tasks->depth] = (uint32_t)encode_reader.task;
    tasks->depth++;
    bool is_known = from->run == encode_run(guest->arena) && tasks->depth <= TASKS_NESTED;
    encode_reader.task = is_known ? number_of(t, from) : TASK_UNKNOWN;
}

static void end_task(struct encode_thread *t, void *argument)
{
    struct task_state *tasks = t->here ? &t->here->tasks : NULL;
    (void)argument;
    if (!tasks || !tasks->depth)
        return;
    if (--tasks->depth < TASKS_NESTED)
        encode_reader.task = tasks->outer[tasks->depth];
}

__attribute__((visibility("default"))) int
calltrail_task_begin(const struct dictionary_snapshot *from)
{
    struct dictionary_snapshot copy = *from;
    return encode_at_work(begin_task, &copy);
}

__attribute__((visibility("default"))) void calltrail_task_end(void)
{
    encode_at_work(end_task, NULL);
}
