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

bool outside_rings_map(struct outside_ring *rings, size_t count)
{
    uint64_t bytes = MOST_SAMPLES_BYTES;
    while (bytes > LEAST_SAMPLES_BYTES && bytes * count / 2 > ALL_SAMPLES_BYTES)
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

/* Takes a copy, without the part of the window that the stack did not fill. */
static void keep_record(struct outside_events *e, const char *bytes, size_t size)
{
    struct outside_record r;
    if (!outside_record_read(bytes, size, e->wanted.in_kernel, &r)) {
        const struct perf_event_header *h = (const void *)bytes;
        e->damaged += h->type == PERF_RECORD_SAMPLE || h->type == PERF_RECORD_MMAP2;
        return;
    }
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
    w->number = e->waiting.count;
    vec_push(&e->waiting, w);
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

static void drain(struct outside_events *e, const struct outside_ring *r)
{
    static uint64_t whole[(UINT16_MAX + 1) / sizeof(uint64_t)];
    uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t at = r->page->data_tail;
    while (at < head) {
        struct perf_event_header h; /* never over the end: all sizes are multiples of 8 */
        memcpy(&h, r->bytes + (at & (r->size - 1)), sizeof h);
        if (h.size < sizeof h || h.size > head - at ||
            h.size % 8) { /* what is there is no record */
            e->damaged++;
            at = head;
            break;
        }
        keep_record(e, in_one_piece(r, at, h.size, (char *)whole), h.size);
        at += h.size;
        __atomic_store_n(&r->page->data_tail, at, __ATOMIC_RELEASE); /* room, at once */
    }
    __atomic_store_n(&r->page->data_tail, at, __ATOMIC_RELEASE);
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
 * A record has its time before it is in its ring, and rings are emptied one after the other: what
 * is younger than the last time that they were emptied may have one before it that is still to
 * come.
 */
void outside_events_read(struct outside_events *e, bool all, outside_visit *visit, void *context)
{
    uint64_t until_ns = all ? UINT64_MAX : e->last_drained_ns;
    e->last_drained_ns = now_ns();
    for (size_t i = 0; i < e->rings.count; i++)
        drain(e, &e->rings.items[i]);
    if (e->waiting.count)
        qsort(e->waiting.items, e->waiting.count, sizeof *e->waiting.items, by_time);
    size_t done = 0;
    while (done < e->waiting.count && e->waiting.items[done]->record.time_ns <= until_ns) {
        visit(context, &e->waiting.items[done]->record);
        free(e->waiting.items[done++]);
    }
    e->waiting.count -= done;
    memmove(e->waiting.items, e->waiting.items + done, e->waiting.count * sizeof *e->waiting.items);
    for (size_t i = 0; i < e->waiting.count; i++)
        e->waiting.items[i]->number = i;
}
