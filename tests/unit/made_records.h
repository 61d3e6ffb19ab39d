/* Perf records made by hand, and rings in ordinary memory to put them in. */
#ifndef MADE_RECORDS_H
#define MADE_RECORDS_H

#include "record/outside/outside_rings.h"

#include <linux/perf_event.h>
#include <string.h>

enum { FAKE_RING = 4096 };

static const uint64_t stack_words[] = {200, 201, 202, 203};

/* A record in the making. */
struct made {
    uint64_t words[64];
    size_t count;
};

static inline void made_word(struct made *m, uint64_t word)
{
    m->words[m->count++] = word;
}

static inline void made_pair(struct made *m, uint32_t first, uint32_t second)
{
    made_word(m, first | (uint64_t)second << 32);
}

static inline struct made made_begin(void)
{
    return (struct made){.count = 1};
}

static inline size_t made_end(struct made *m, uint32_t type, uint16_t misc)
{
    struct perf_event_header h = {type, misc, (uint16_t)(m->count * 8)};
    memcpy(m->words, &h, sizeof h);
    return m->count * 8;
}

static inline void made_trailer(struct made *m, uint32_t pid, uint32_t tid, uint64_t time)
{
    made_pair(m, pid, tid);
    made_word(m, time);
    made_word(m, 55);
}

/* With a window of four words, of which so many bytes are filled. */
static inline size_t made_sample(struct made *m, uint64_t id, uint32_t pid, uint32_t tid,
                                 uint64_t time, uint64_t filled)
{
    *m = made_begin();
    made_word(m, id);
    made_word(m, 0x401000);
    made_pair(m, pid, tid);
    made_word(m, time);
    made_word(m, PERF_SAMPLE_REGS_ABI_64);
    for (unsigned i = 0; i < OUTSIDE_REGISTERS; i++)
        made_word(m, 100 + i);
    made_word(m, sizeof stack_words);
    for (unsigned i = 0; i < 4; i++)
        made_word(m, stack_words[i]);
    made_word(m, filled);
    return made_end(m, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
}

struct fake_ring {
    struct perf_event_mmap_page page;
    char bytes[FAKE_RING];
};

static inline void fake_put(struct fake_ring *f, const struct made *m)
{
    const char *from = (const char *)m->words;
    for (size_t i = 0; i < m->count * 8; i++)
        f->bytes[f->page.data_head++ % FAKE_RING] = from[i];
}

#endif
