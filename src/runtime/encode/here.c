/*
 * Snapshots of the calling thread's context, where the fast way in the program does not find it:
 * the thread's first one, functions that were entered from code that is not edited, handlers of
 * signals. The stack is walked to the first frame outside that has a word.
 */
#include "runtime/encode/here.h"

#include "arch/x86_64/syscall.h"
#include "runtime/edit/no_mirror.h"
#include "runtime/registers_here.h"
#include "runtime/sample/sample.h"

#include <string.h>
#include <sys/mman.h>

/* Where every thread begins: nothing is found, and the slow way is taken. */
static_assert((int)WORDS_MAPPED <= (int)NO_MIRROR_BYTES, "every thread begins with that");

__thread struct encode_reader encode_reader
    __attribute__((tls_model("initial-exec"))) = {.words = no_mirror};

/* Has the program asked for the functions below? Only then it matters where threads were made. */
static bool is_used;

void encode_reader_forget(void)
{
    encode_reader = (struct encode_reader){.words = no_mirror};
}

/* --- what a thread has for it ----------------------------------------------------------------- */

enum { HERE_BYTES = sizeof(struct here_state) + KNOWN_KEYS * sizeof(struct known_key) };

static bool begin_here(struct encode_thread *t)
{
    struct here_state *h = raw_mmap(HERE_BYTES, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (!h)
        return false;
    h->keys = (struct known_key *)(void *)(h + 1);
    t->here = h;
    if (!encode_log_begin(t) || !encode_tasks_begin(t)) {
        h->log.is_full = true;
        return false;
    }
    return true;
}

void encode_here_end(struct encode_thread *t)
{
    if (!t->here)
        return;
    encode_log_end(t);
    encode_tasks_end(t);
    dictionary_memory_end(t->here);
    raw_syscall3(SYS_munmap, (long)t->here, HERE_BYTES, 0);
    t->here = NULL;
}

void encode_here_numbered(struct encode_thread *t)
{
    encode_log_numbers(t);
    memset(t->here->keys, 0, KNOWN_KEYS * sizeof(struct known_key));
    encode_reader.stamp = stamp_of(t, t->here->log.log);
}

bool encode_here_ready(struct encode_thread *t)
{
    return (t->here || begin_here(t)) && !t->here->log.is_full;
}

/* --- taking one ------------------------------------------------------------------------------- */

struct request {
    struct walk_registers registers;
    uint64_t restored_below;
    unsigned how;
    struct dictionary_snapshot *to;
    uint64_t slot; /* where the caller's return address is, as it says */
    bool is_taken, is_its_slot;
};

/* The innermost frame that is the program's. */
static const struct walk_frame *program_frame(const struct encode_thread *t)
{
    const struct walk_modules *modules = guest->modules;
    for (uint32_t i = 0; i < MOST_FRAMES && t->frames[i].pc; i++)
        if (modules_role(modules, t->frames[i].module) != ROLE_OURS)
            return &t->frames[i];
    return NULL;
}

static void take(struct encode_thread *t, void *argument)
{
    struct request *q = argument;
    t->frames[0].pc = 0;
    if (!encode_here_ready(t))
        return;
    uint64_t word = encode_resync(t, &q->registers, q->restored_below, q->how);
    const struct walk_frame *f = word ? program_frame(t) : NULL;
    encode_log_follow(t);
    if (!f || t->here->log.is_full)
        return;
    encode_reader.words = t->mirror + WORDS_SHIFT;
    encode_reader.run = encode_run(guest->arena);
    encode_reader.stamp = stamp_of(t, t->here->log.log);
    *q->to = (struct dictionary_snapshot){.run = encode_reader.run,
                                          .stamp = encode_reader.stamp,
                                          .word = word,
                                          .place = f->pc,
                                          .task = encode_reader.task};
    q->is_taken = true;
    q->is_its_slot = f->slot && f->slot == q->slot;
}

static int take_of(struct request *q)
{
    *q->to = (struct dictionary_snapshot){0};
    return !encode_rests() && encode_at_work(take, q) && q->is_taken;
}

/* --- what the program calls ------------------------------------------------------------------- */

int calltrail_here(struct dictionary_snapshot *to);
int calltrail_at(struct dictionary_snapshot *to, const void *context);
const struct encode_api *calltrail_api(unsigned version);

__attribute__((visibility("default"), noinline)) int calltrail_here(struct dictionary_snapshot *to)
{
    struct request q = {.how = WALK_AT_CALL, .to = to};
    take_registers_here(&q.registers);
    return take_of(&q);
}

/* The same for a place of ct_here, which learns whether the caller's return address lies behind its
 * frame pointer: only then it may take the fast way. */
static __attribute__((noinline)) int here_at_place(struct dictionary_snapshot *to,
                                                   const void *frame, long *place)
{
    struct request q = {.how = WALK_AT_CALL, .to = to, .slot = (uint64_t)(uintptr_t)frame + 8};
    take_registers_here(&q.registers);
    int status = take_of(&q);
    if (q.is_its_slot)
        *place = (const char *)&encode_reader - (const char *)__builtin_thread_pointer();
    return status;
}

/* Of what a signal has interrupted. */
__attribute__((visibility("default"))) int calltrail_at(struct dictionary_snapshot *to,
                                                        const void *context)
{
    struct request q = {.to = to};
    sample_registers(context, &q.registers);
    *to = (struct dictionary_snapshot){0};
    return encode_leave_code(&q.registers, &q.restored_below) && take_of(&q);
}

void encode_thread_made(struct thread *made)
{
    static_assert(sizeof made->origin == sizeof(struct dictionary_snapshot), "it has its place");
    if (is_used)
        calltrail_here((struct dictionary_snapshot *)(void *)made->origin);
}

/* The header knows this layout: version 1. */
__attribute__((visibility("default"))) const struct encode_api *calltrail_api(unsigned version)
{
    static const struct encode_api api = {here_at_place,     calltrail_at,    calltrail_key,
                                          calltrail_decode,  calltrail_print, calltrail_task_begin,
                                          calltrail_task_end};
    if (version != 1 || guest->engine != &engine_encode)
        return NULL;
    is_used = true;
    return &api;
}
