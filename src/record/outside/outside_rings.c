#include "record/outside/outside_rings.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Without a privilege there is half a megabyte for each processor (kernel.perf_event_mlock_kb), of
 * which samples get a half, and what is told of processes an eighth.
 */
enum {
    ALL_SAMPLES_BYTES = 64 << 20,
    MOST_SAMPLES_BYTES = 32 << 20,
    LEAST_SAMPLES_BYTES = 64 << 10,
    MOST_TALE_BYTES = 1 << 20,
    LEAST_TALE_BYTES = 32 << 10
};

static void unmap_ring(struct outside_ring *r)
{
    if (r->page)
        munmap(r->page, (size_t)(r->bytes - (char *)r->page) + r->size);
    free(r->copy);
    r->copy = NULL;
    r->page = NULL;
}

static bool map_ring(struct outside_ring *r, uint64_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *map = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    if (map == MAP_FAILED)
        return false;
    r->page = map;
    r->bytes = (char *)map + page;
    r->size = bytes;
    return true;
}

/* All of them, of one size for each kind; or none. */
static bool map_all(struct outside_ring *rings, size_t count, uint64_t samples_bytes)
{
    uint64_t tale_bytes = samples_bytes / 4;
    if (tale_bytes > MOST_TALE_BYTES)
        tale_bytes = MOST_TALE_BYTES;
    if (tale_bytes < LEAST_TALE_BYTES)
        tale_bytes = LEAST_TALE_BYTES;
    for (size_t i = 0; i < count; i++) {
        if (map_ring(&rings[i], rings[i].has_samples ? samples_bytes : tale_bytes))
            continue;
        int why = errno;
        while (i-- > 0)
            unmap_ring(&rings[i]);
        errno = why;
        return false;
    }
    return true;
}

/*
 * Memory that is locked has to be cleared, which takes 0.15 ms for each megabyte: so it is not much
 * more than what is needed when the reader waits for a processor.
 */
uint64_t outside_ring_bytes(uint64_t period_ns, uint64_t window_bytes)
{
    uint64_t a_second = 1000000000 / (period_ns ? period_ns : 1) * window_bytes;
    uint64_t bytes = LEAST_SAMPLES_BYTES;
    while (bytes < MOST_SAMPLES_BYTES && bytes < a_second)
        bytes *= 2;
    return bytes;
}

bool outside_rings_map(struct outside_ring *rings, size_t count, uint64_t samples_bytes)
{
    uint64_t bytes = samples_bytes, with_samples = 0;
    for (size_t i = 0; i < count; i++)
        with_samples += rings[i].has_samples;
    while (bytes > LEAST_SAMPLES_BYTES && bytes * with_samples > ALL_SAMPLES_BYTES)
        bytes /= 2;
    for (; bytes >= LEAST_SAMPLES_BYTES; bytes /= 2)
        if (map_all(rings, count, bytes))
            return true;
    return false;
}

void outside_ring_close(struct outside_ring *r)
{
    unmap_ring(r);
    close(r->fd);
}

struct outside_waiting {
    struct outside_record record; /* refers to the bytes */
    uint64_t number;              /* in the order in which they were taken */
    uint64_t bytes[];
};

void outside_waiting_free(struct outside_events *e)
{
    for (size_t i = 0; i < e->waiting.count; i++)
        free(e->waiting.items[i]);
    vec_free(&e->waiting);
}

static const void *moved(const void *pointer, const void *from, const void *to)
{
    return pointer ? (const char *)to + ((const char *)pointer - (const char *)from) : NULL;
}

/* A copy, without the part of the window that the stack did not fill. To be freed. */
static struct outside_waiting *copy_record(const struct outside_record *record, const char *bytes,
                                           size_t size)
{
    struct outside_record r = *record;
    if (r.kind == OUTSIDE_SAMPLE && r.sample.stack)
        size = (size_t)(r.sample.stack - bytes) + r.sample.stack_bytes;
    struct outside_waiting *w = must_realloc(NULL, sizeof *w + size, 1);
    memcpy(w->bytes, bytes, size);
    if (r.kind == OUTSIDE_SAMPLE) {
        r.sample.registers = moved(r.sample.registers, bytes, w->bytes);
        r.sample.stack = moved(r.sample.stack, bytes, w->bytes);
        r.sample.chain = moved(r.sample.chain, bytes, w->bytes);
    } else if (r.kind == OUTSIDE_MAPPING) {
        r.mapping.path = moved(r.mapping.path, bytes, w->bytes);
    } else if (r.kind == OUTSIDE_NAME) {
        r.name.text = moved(r.name.text, bytes, w->bytes);
    }
    w->record = r;
    w->number = 0;
    return w;
}

/* A record in one piece; `whole` is room for one that goes over the ring's end. */
static const char *in_one_piece(const struct outside_ring *r, uint64_t at, size_t size, char *whole)
{
    uint64_t offset = at & (r->size - 1), first = r->size - offset;
    if (size <= first)
        return r->bytes + offset;
    memcpy(whole, r->bytes + offset, first);
    memcpy(whole + first, r->bytes, size - first);
    return whole;
}

static char *room_for_one(void)
{
    static uint64_t whole[(UINT16_MAX + 1) / sizeof(uint64_t)];
    return (char *)whole;
}

static void pass_over(struct outside_ring *r, uint64_t bytes)
{
    __atomic_store_n(&r->page->data_tail, r->page->data_tail + bytes, __ATOMIC_RELEASE);
}

/*
 * The first record of a ring that is one, in one piece; NULL: there is none. What is no record is
 * passed over; where a size cannot be, that is all that is left.
 */
static const char *first_record(struct outside_events *e, struct outside_ring *r, uint64_t head,
                                struct outside_record *out, uint64_t *size)
{
    for (uint64_t at; (at = r->page->data_tail) < head;) {
        struct perf_event_header h; /* never over the end: all sizes are multiples of 8 */
        memcpy(&h, r->bytes + (at & (r->size - 1)), sizeof h);
        if (h.size < sizeof h || h.size > head - at || h.size % 8) {
            e->damaged++;
            pass_over(r, head - at);
            return NULL;
        }
        const char *bytes = in_one_piece(r, at, h.size, room_for_one());
        *size = h.size;
        if (outside_record_read(bytes, h.size, e->wanted.in_kernel, out))
            return bytes;
        e->damaged += h.type == PERF_RECORD_SAMPLE || h.type == PERF_RECORD_MMAP2;
        pass_over(r, h.size);
    }
    return NULL;
}

static void forget_next(struct outside_ring *r)
{
    free(r->copy);
    r->copy = NULL;
    r->has_next = false;
}

/* Takes copies of all that is in a ring. */
static void drain(struct outside_events *e, struct outside_ring *r, uint64_t head)
{
    struct outside_record record;
    uint64_t size;
    const char *bytes;
    forget_next(r);
    while ((bytes = first_record(e, r, head, &record, &size))) {
        struct outside_waiting *w = copy_record(&record, bytes, size);
        w->number = e->waiting.count;
        e->told += record.kind != OUTSIDE_SAMPLE;
        vec_push(&e->waiting, w);
        pass_over(r, size); /* room, at once */
    }
}

/* Looks at the first record of a ring, which stays there: its window is large. */
static bool look_at_next(struct outside_events *e, struct outside_ring *r)
{
    if (r->has_next || !r->in_place)
        return r->has_next;
    const char *bytes = first_record(e, r, r->head, &r->next, &r->next_bytes);
    if (bytes && bytes == room_for_one()) {
        r->copy = copy_record(&r->next, bytes, r->next_bytes);
        r->next = r->copy->record;
    }
    return r->has_next = bytes != NULL;
}

/* The ring whose first record is the oldest; NULL: there is none. */
static struct outside_ring *oldest_ring(struct outside_events *e)
{
    struct outside_ring *oldest = NULL;
    for (size_t i = 0; i < e->rings.count; i++) {
        struct outside_ring *r = &e->rings.items[i];
        if (look_at_next(e, r) && (!oldest || r->next.time_ns < oldest->next.time_ns))
            oldest = r;
    }
    return oldest;
}

static int by_time(const void *a, const void *b)
{
    const struct outside_waiting *x = *(struct outside_waiting *const *)a;
    const struct outside_waiting *y = *(struct outside_waiting *const *)b;
    if (x->record.time_ns != y->record.time_ns)
        return x->record.time_ns < y->record.time_ns ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/*
 * Samples stay in their rings until their turn: to copy their windows would take as long as to walk
 * them. But where the ring is small, or the reader late, room is worth more.
 */
static void look_at_rings(struct outside_events *e)
{
    for (size_t i = 0; i < e->rings.count; i++) {
        struct outside_ring *r = &e->rings.items[i];
        r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
        r->in_place = r->has_samples && r->head - r->page->data_tail <= r->size / 2;
        if (!r->in_place)
            drain(e, r, r->head);
    }
    if (e->waiting.count)
        qsort(e->waiting.items, e->waiting.count, sizeof *e->waiting.items, by_time);
}

/*
 * A record has its time before it is in its ring, and rings are emptied one after the other: what
 * is younger than the last time that they were emptied may have one before it that is still to
 * come.
 */
void outside_events_read(struct outside_events *e, bool all, outside_visit *visit, void *context)
{
    uint64_t until_ns = all ? UINT64_MAX : e->last_drained_ns;
    size_t done = 0;
    e->last_drained_ns = now_ns();
    look_at_rings(e);
    for (;;) {
        struct outside_ring *r = oldest_ring(e);
        struct outside_waiting *w = done < e->waiting.count ? e->waiting.items[done] : NULL;
        bool in_ring = r && (!w || r->next.time_ns < w->record.time_ns);
        if (in_ring ? r->next.time_ns > until_ns : !w || w->record.time_ns > until_ns)
            break;
        visit(context, in_ring ? &r->next : &w->record);
        if (in_ring) {
            forget_next(r);
            pass_over(r, r->next_bytes);
        } else {
            free(w);
            done++;
        }
    }
    e->waiting.count -= done;
    if (done)
        memmove(e->waiting.items, e->waiting.items + done,
                e->waiting.count * sizeof *e->waiting.items);
    for (size_t i = 0; i < e->waiting.count; i++)
        e->waiting.items[i]->number = i;
}
