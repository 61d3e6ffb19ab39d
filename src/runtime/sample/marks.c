#include "runtime/sample/marks.h"

#include "arch/x86_64/syscall.h"
#include "runtime/confined.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

struct mark trampoline_marks[MARK_COUNT] __attribute__((visibility("hidden"), aligned(64)));

static uint32_t table_clock; /* counts what is asked of the table */
bool marks_come_back;

/*
 * Is the word still in memory? Nothing is touched that may be gone: the kernel compares, and says
 * which of the three it is: the same, another one, or no memory.
 */
static bool is_still_there(const struct mark *m, uint64_t slot)
{
    static const struct timespec no_time;
    uint32_t low_half = (uint32_t)mark_word((uint32_t)(m - trampoline_marks));
    long answer = raw_syscall6(SYS_futex, (long)slot, FUTEX_WAIT_PRIVATE, (long)low_half,
                               (long)&no_time, 0, 0);
    return answer != -EFAULT && (answer != -EAGAIN || marks_come_back);
}

/*
 * An entry for this slot and address: one that was used for them before, or a free one, or one that
 * has been dead for long. Which one depends on what is marked, so the same mark finds its old entry
 * again. It is one of a few neighbours, others for each thread, so that a return meets stubs and
 * entries on pages that are in use anyway; when these are taken, it is any of the table.
 */
enum { TRIES = 16 };

struct search {
    struct mark *window[TRIES];
    struct mark *free_one, *oldest;
};

/* Looks at entries from `first` on, within `room` of them; true: there is one to be had. */
static bool look_for_entry(struct search *s, uint32_t first, uint32_t place, uint32_t room,
                           uint64_t slot, uint64_t real)
{
    enum { LONG_DEAD = 256 };
    for (uint32_t i = 0; i < TRIES; i++) {
        struct mark *m = &trampoline_marks[first + ((place + i) & (room - 1))];
        uint64_t state = m->state;
        s->window[i] = m;
        bool is_the_same = state == (slot | MARK_DEAD) && m->real == real;
        if (state == MARK_FREE || is_the_same) {
            s->free_one = m; /* an older entry for the same would have been found on the way */
            return true;
        }
        if ((state & MARK_DEAD) && !m->was_left && table_clock - m->died > LONG_DEAD &&
            (!s->oldest || m->died - s->oldest->died > UINT32_MAX / 2))
            s->oldest = m;
    }
    return false;
}

struct mark *mark_take(const struct thread *t, uint64_t slot, uint64_t real)
{
    enum { NEIGHBOURS = 64 };
    uint64_t hash = (slot ^ real << 20) * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t place = (uint32_t)(hash >> 40), first = t->tid * NEIGHBOURS & (MARK_COUNT - 1);
    table_clock++; /* it need not be exact */
    struct search s;
    s.oldest = NULL;
    if (look_for_entry(&s, first, place, NEIGHBOURS, slot, real) ||
        look_for_entry(&s, 0, place, MARK_COUNT, slot, real)) {
        uint64_t state = s.free_one->state;
        return (state == MARK_FREE || state == (slot | MARK_DEAD)) &&
                       mark_change_state(s.free_one, state, MARK_BEING_SET)
                   ? s.free_one
                   : NULL;
    }
    struct mark *oldest = s.oldest;
    uint64_t state = oldest ? oldest->state : 0;
    if (oldest && !marks_come_back)
        return (state & MARK_DEAD) && mark_change_state(oldest, state, MARK_BEING_SET) ? oldest
                                                                                       : NULL;
    for (uint32_t i = 0; i < TRIES && !is_confined(); i++) { /* on stacks that are gone */
        struct mark *m = s.window[i];
        state = m->state;
        if (state > MARK_BEING_SET && !(state & MARK_DEAD) && !is_still_there(m, state) &&
            mark_change_state(m, state, MARK_BEING_SET))
            return m;
    }
    return NULL;
}

void mark_declare_dead_from(struct mark *m, uint64_t state, uint64_t slot)
{
    m->died = table_clock;
    mark_change_state(m, state, slot | MARK_DEAD);
}

void mark_declare_dead(struct mark *m, uint64_t slot)
{
    mark_declare_dead_from(m, slot, slot);
}
