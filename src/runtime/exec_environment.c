/*
 * The environment of a program that is started: the caller's, with our variables put back.
 *
 * It is made in memory of its own. The stack may have 16 KB, and the environment any size; and a
 * child of vfork has no other memory than its parent's, where nothing must be left behind. So such
 * a child takes one of a few rooms, which are kept: the kernel itself says when it has done with
 * it, by clearing the word that set_tid_address names, at exec as at exit.
 *
 * The caller's environment is read with care. What cannot be read is left to the kernel, which
 * says EFAULT.
 */
#include "runtime/exec_environment.h"

#include "arch/x86_64/syscall.h"
#include "base/page.h"
#include "runtime/exec_target.h"
#include "runtime/thread.h"
#include "unwind/memory.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static const char *preload; /* "LD_PRELOAD=…/libcalltrail-rt.so", and the channel's variable */
static const char *channel;
static const char preload_name[] = "LD_PRELOAD=", valgrind_name[] = "VALGRIND_LAUNCHER=";

enum { NAME_BYTES = sizeof preload_name - 1 };

void exec_environment_set(const char *preload_variable, const char *channel_variable)
{
    preload = preload_variable;
    channel = channel_variable;
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* A page that is known to be readable; at first none. */
struct seen {
    uint64_t page;
};

enum { NO_PAGE = 1 };

static bool can_read(struct seen *seen, const void *at)
{
    uint64_t page = page_start((uint64_t)at);
    if (page == seen->page)
        return true;
    if (!memory_can_be_read(page))
        return false;
    seen->page = page;
    return true;
}

/* What is known of an environment before it is copied. */
struct measured {
    size_t count;
    size_t theirs_bytes;  /* of the program's own LD_PRELOAD, without its name */
    const char *theirs;   /* NULL: it has none */
    bool is_bad, is_done; /* cannot be read; has ours already, from a stand-in that called this */
    bool is_valgrinds;    /* what it runs next is an emulator, with a program that it emulates */
};

/* How far a text agrees with a name; -1: it cannot be read. */
static int agrees(struct seen *seen, const char *text, const char *name)
{
    int n = 0;
    for (; name[n]; n++) {
        if (!can_read(seen, text + n))
            return -1;
        if (text[n] != name[n])
            break;
    }
    return n;
}

static bool measure_text(struct seen *seen, const char *text, size_t *bytes)
{
    for (*bytes = 0;; ++*bytes) {
        if (!can_read(seen, text + *bytes))
            return false;
        if (!text[*bytes])
            return true;
    }
}

static struct measured measure(char *const environment[])
{
    struct measured m = {0};
    struct seen pointers = {NO_PAGE}, texts = {NO_PAGE};
    for (; environment; m.count++) {
        m.is_bad = (uint64_t)&environment[m.count] % sizeof *environment != 0 ||
                   !can_read(&pointers, &environment[m.count]);
        const char *text = m.is_bad ? NULL : environment[m.count];
        m.is_done |= text && text == channel;
        if (!text || m.is_done)
            break;
        int length = agrees(&texts, text, preload_name);
        m.is_bad = length < 0;
        if (length == NAME_BYTES) {
            m.theirs = text + NAME_BYTES;
            m.is_bad = !measure_text(&texts, m.theirs, &m.theirs_bytes);
        }
        m.is_valgrinds |=
            !m.is_bad && agrees(&texts, text, valgrind_name) == sizeof valgrind_name - 1;
        if (m.is_bad)
            break;
    }
    return m;
}

/* --- memory -------------------------------------------------------------------------------------
 */

static void *map(size_t bytes)
{
    return raw_mmap(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool try_room(struct exec_room *room, uint32_t tid)
{
    uint32_t no_owner = 0;
    return __atomic_compare_exchange_n(&room->owner, &no_owner, tid, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void leave_room(struct exec_room *room)
{
    raw_syscall3(SYS_set_tid_address, 0, 0, 0); /* as it is in a child of vfork */
    __atomic_store_n(&room->owner, 0, __ATOMIC_RELEASE);
}

/* A room is held from here to the exec, which does not take long: one that is free comes. */
static struct exec_room *take_room(size_t bytes)
{
    enum { MOST_TURNS = 10000 };
    uint32_t tid = (uint32_t)raw_syscall3(SYS_gettid, 0, 0, 0);
    for (unsigned turn = 0; turn < MOST_TURNS; turn++) {
        struct exec_room *room = &guest->exec_rooms[(tid + turn) % EXEC_ROOMS];
        if (!try_room(room, tid)) {
            raw_syscall3(SYS_sched_yield, 0, 0, 0);
            continue;
        }
        raw_syscall3(SYS_set_tid_address, (long)&room->owner, 0, 0);
        if (room->bytes >= bytes)
            return room;
        void *memory = map(bytes), *old = room->memory;
        if (!memory) {
            leave_room(room);
            return NULL;
        }
        size_t old_bytes = room->bytes;
        room->bytes = 0; /* first: the child may be killed at any point */
        room->memory = memory;
        room->bytes = bytes;
        if (old)
            raw_syscall3(SYS_munmap, (long)old, (long)old_bytes, 0);
        return room;
    }
    return NULL;
}

static bool take_memory(struct exec_environment *out, size_t bytes)
{
    out->bytes = page_round_up(bytes);
    if (!has_borrowed_memory()) {
        out->memory = map(out->bytes);
        return out->memory != NULL;
    }
    out->room = take_room(out->bytes);
    out->memory = out->room ? out->room->memory : NULL;
    return out->memory != NULL;
}

void exec_environment_free(const struct exec_environment *e)
{
    if (e->room)
        leave_room(e->room);
    else if (e->memory)
        raw_syscall3(SYS_munmap, (long)e->memory, (long)e->bytes, 0);
}

/* --- both ---------------------------------------------------------------------------------------
 */

static void fill(char **out, const struct measured *m, char *const environment[])
{
    char *text = (char *)(out + m->count + 3);
    size_t k = 0, length = strlen(preload);
    bool is_joined = false;
    for (size_t n = 0; n < m->count; n++) {
        if (!m->theirs_bytes || environment[n] + NAME_BYTES != m->theirs) {
            out[k++] = environment[n];
            continue;
        }
        memcpy(text, preload, length);
        text[length] = ':';
        memcpy(text + length + 1, m->theirs, m->theirs_bytes);
        text[length + 1 + m->theirs_bytes] = '\0';
        out[k++] = text;
        is_joined = true;
    }
    if (!is_joined)
        out[k++] = (char *)preload;
    out[k++] = (char *)channel;
    out[k] = NULL;
}

struct exec_environment exec_environment_make(char *const environment[])
{
    struct exec_environment e = {.variables = environment};
    if (!preload || !channel || !exec_can_open(preload + NAME_BYTES))
        return e;
    struct measured m = measure(environment);
    size_t text = m.theirs_bytes ? strlen(preload) + m.theirs_bytes + 2 : 0;
    if (m.is_bad || m.is_done || m.is_valgrinds ||
        !take_memory(&e, (m.count + 3) * sizeof *environment + text))
        return e;
    fill(e.memory, &m, environment);
    e.variables = e.memory;
    return e;
}
