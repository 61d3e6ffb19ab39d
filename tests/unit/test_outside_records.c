/* The reader of perf records: what is whole is read, what is damaged is not. */
#include "record/outside/outside_rings.h"

#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { RING = 4096 };
static const uint64_t stack_words[] = {200, 201, 202, 203};

/* A record in the making. */
struct made {
    uint64_t words[64];
    size_t count;
};

static void add(struct made *m, uint64_t word)
{
    m->words[m->count++] = word;
}

static void add_pair(struct made *m, uint32_t first, uint32_t second)
{
    add(m, first | (uint64_t)second << 32);
}

static struct made begin(void)
{
    return (struct made){.count = 1};
}

static size_t end(struct made *m, uint32_t type, uint16_t misc)
{
    struct perf_event_header h = {type, misc, (uint16_t)(m->count * 8)};
    memcpy(m->words, &h, sizeof h);
    return m->count * 8;
}

static void add_trailer(struct made *m, uint64_t time)
{
    add_pair(m, 7, 8);
    add(m, time);
    add(m, 55);
}

static size_t make_sample(struct made *m, uint64_t time, uint64_t filled)
{
    *m = begin();
    add(m, 55);
    add(m, 0x401000);
    add_pair(m, 7, 8);
    add(m, time);
    add(m, PERF_SAMPLE_REGS_ABI_64);
    for (unsigned i = 0; i < OUTSIDE_REGISTERS; i++)
        add(m, 100 + i);
    add(m, 32);
    for (unsigned i = 0; i < 4; i++)
        add(m, stack_words[i]);
    add(m, filled);
    return end(m, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
}

static void test_sample(void **state)
{
    (void)state;
    struct made m;
    struct outside_record r;
    size_t size = make_sample(&m, 999, 24);
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_int_equal(r.kind, OUTSIDE_SAMPLE);
    assert_int_equal(r.pid, 7);
    assert_int_equal(r.tid, 8);
    assert_int_equal(r.time_ns, 999);
    assert_int_equal(r.id, 55);
    assert_false(r.sample.in_kernel);
    assert_int_equal(r.sample.registers[7], 107);
    assert_int_equal(r.sample.window_bytes, 32);
    assert_int_equal(r.sample.stack_bytes, 24);
    assert_memory_equal(r.sample.stack, stack_words, 24);
}

/* Cut anywhere, or with more of the stack than there was room for, it is none. */
static void test_damaged_sample(void **state)
{
    (void)state;
    struct made m;
    struct outside_record r;
    size_t size = make_sample(&m, 999, 24);
    for (size_t words = 0; words < size / 8; words++) {
        m.count = words;
        if (words)
            end(&m, PERF_RECORD_SAMPLE, 0);
        assert_false(outside_record_read(m.words, words * 8, false, &r));
    }
    make_sample(&m, 999, 40);
    assert_false(outside_record_read(m.words, size, false, &r));
    make_sample(&m, 999, 24);
    assert_false(outside_record_read(m.words, size - 8, false, &r)); /* longer than it may be */
    m.words[5] = 3;                                                  /* no such ABI */
    assert_false(outside_record_read(m.words, size, false, &r));
}

static void test_32_bits(void **state)
{
    (void)state;
    struct made m;
    struct outside_record r;
    size_t size = make_sample(&m, 999, 24);
    m.words[5] = PERF_SAMPLE_REGS_ABI_32;
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_null(r.sample.registers);
    assert_int_equal(r.sample.abi, OUTSIDE_ABI_32);
}

static void test_mapping(void **state)
{
    (void)state;
    struct outside_record r;
    struct made m = begin();
    add_pair(&m, 7, 8);
    add(&m, 0x400000);
    add(&m, 0x1000);
    add(&m, 0x2000);
    add_pair(&m, 8, 1);
    add(&m, 99);
    add(&m, 0);
    add_pair(&m, 5, 2);
    memcpy(&m.words[m.count++], "/bin/no", 8);
    add_trailer(&m, 1234);
    size_t size = end(&m, PERF_RECORD_MMAP2, 0);
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_int_equal(r.time_ns, 1234);
    assert_int_equal(r.mapping.start, 0x400000);
    assert_int_equal(r.mapping.inode, 99);
    assert_string_equal(r.mapping.path, "/bin/no");
    memset(&m.words[m.count - 4], 'x', 8); /* a path without an end */
    assert_false(outside_record_read(m.words, size, false, &r));
    memcpy(&m.words[m.count - 4], "/bin/no", 8);
    m.words[3] = UINT64_MAX; /* over the end of all addresses */
    assert_false(outside_record_read(m.words, size, false, &r));
}

static void test_lost(void **state)
{
    (void)state;
    struct outside_record r;
    struct made m = begin();
    add(&m, 55);
    add(&m, 17);
    add_trailer(&m, 1);
    size_t size = end(&m, PERF_RECORD_LOST, 0);
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_int_equal(r.kind, OUTSIDE_LOST);
    assert_int_equal(r.lost, 17);
}

/* --- rings -------------------------------------------------------------------------------------
 */

struct fake {
    struct perf_event_mmap_page page;
    char bytes[RING];
};

static void put(struct fake *f, const struct made *m)
{
    const char *from = (const char *)m->words;
    for (size_t i = 0; i < m->count * 8; i++)
        f->bytes[f->page.data_head++ % RING] = from[i];
}

struct seen {
    uint64_t times[64];
    unsigned count;
};

static void note(void *context, const struct outside_record *r)
{
    struct seen *s = context;
    assert_memory_equal(r->sample.stack, stack_words, 24);
    s->times[s->count++] = r->time_ns;
}

/* Two rings, each in order; records go over their ends. */
static void test_order(void **state)
{
    (void)state;
    struct fake *fakes = must_calloc(2, sizeof *fakes);
    struct outside_events e = {0};
    struct made m;
    struct seen seen = {0};
    for (unsigned i = 0; i < 2; i++) {
        fakes[i].page.data_head = fakes[i].page.data_tail = RING - 104;
        vec_push(&e.rings,
                 (struct outside_ring){
                     .fd = -1, .page = &fakes[i].page, .bytes = fakes[i].bytes, .size = RING});
    }
    for (uint64_t time = 1; time <= 20; time++) {
        make_sample(&m, time, 24);
        put(&fakes[time % 3 == 0], &m);
    }
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, 20);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(seen.times[i], i + 1);
    assert_int_equal(e.damaged, 0);

    /* One that may have others before it waits for the next time. */
    make_sample(&m, UINT64_MAX - 1, 24);
    put(&fakes[0], &m);
    outside_events_read(&e, false, note, &seen);
    assert_int_equal(seen.count, 20);
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, 21);

    /* A size that is none ends what can be read of a ring, and is counted. */
    make_sample(&m, 22, 24);
    m.words[0] |= UINT64_C(0xffff) << 48;
    put(&fakes[0], &m);
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, 21);
    assert_int_equal(e.damaged, 1);
    assert_int_equal(fakes[0].page.data_tail, fakes[0].page.data_head);
    vec_free(&e.rings);
    outside_waiting_free(&e);
    free(fakes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),  cmocka_unit_test(test_damaged_sample),
        cmocka_unit_test(test_32_bits), cmocka_unit_test(test_mapping),
        cmocka_unit_test(test_lost),    cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
