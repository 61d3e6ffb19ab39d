/*
 * Any bytes as the contents of a ring: each record is read, and all that it refers to is there. The
 * first byte says whether samples have the kernel's calls, and where in the ring the records begin.
 */
#include "record/outside/outside_rings.h"

#include <linux/perf_event.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum_bytes(const void *bytes, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += ((const uint8_t *)bytes)[i];
    return sum;
}

static void look_at(void *context, const struct outside_record *r)
{
    uint64_t *sum = context;
    if (r->kind == OUTSIDE_SAMPLE) {
        const struct outside_sample *s = &r->sample;
        if (s->stack_bytes > s->window_bytes)
            abort();
        *sum += sum_bytes(s->stack, s->stack_bytes) + sum_bytes(s->chain, s->chain_count * 8) +
                (s->registers ? sum_bytes(s->registers, OUTSIDE_REGISTERS * 8) : 0);
    } else if (r->kind == OUTSIDE_MAPPING) {
        *sum += strlen(r->mapping.path);
    } else if (r->kind == OUTSIDE_NAME) {
        *sum += strlen(r->name.text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { RING = 1 << 16 };
    if (size < 1 || size > RING)
        return 0;
    uint64_t sum = 0, tail = (uint64_t)(data[0] >> 1) * (RING / 128);
    struct perf_event_mmap_page page = {.data_tail = tail, .data_head = tail + size - 1};
    uint8_t *bytes = must_calloc(RING, 1); /* exactly as long, so that one byte too many is seen */
    for (size_t i = 1; i < size; i++)
        bytes[(tail + i - 1) % RING] = data[i];
    struct outside_ring ring = {
        .fd = -1, .page = &page, .bytes = (char *)bytes, .size = RING, .has_samples = true};
    struct outside_events events = {.wanted.in_kernel = data[0] & 1};
    vec_push(&events.rings, ring);
    outside_events_read(&events, true, look_at, &sum);
    if (events.waiting.count || page.data_tail != page.data_head)
        abort();
    vec_free(&events.rings);
    outside_waiting_free(&events);
    free(bytes);
    return 0;
}
