/* The reader of perf records: what is whole is read, what is damaged is not. */
#include "made_records.h"
#include "record/outside/outside_rings.h"

#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_sample(void **state)
{
    (void)state;
    struct made m;
    struct outside_record r;
    size_t size = made_sample(&m, 55, 7, 8, 999, 24);
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
    size_t size = made_sample(&m, 55, 7, 8, 999, 24);
    for (size_t words = 0; words < size / 8; words++) {
        m.count = words;
        if (words)
            made_end(&m, PERF_RECORD_SAMPLE, 0);
        assert_false(outside_record_read(m.words, words * 8, false, &r));
    }
    made_sample(&m, 55, 7, 8, 999, 40);
    assert_false(outside_record_read(m.words, size, false, &r));
    made_sample(&m, 55, 7, 8, 999, 24);
    assert_false(outside_record_read(m.words, size - 8, false, &r)); /* longer than it may be */
    m.words[5] = 3;                                                  /* no such ABI */
    assert_false(outside_record_read(m.words, size, false, &r));
}

static void test_32_bits(void **state)
{
    (void)state;
    struct made m;
    struct outside_record r;
    size_t size = made_sample(&m, 55, 7, 8, 999, 24);
    m.words[5] = PERF_SAMPLE_REGS_ABI_32;
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_null(r.sample.registers);
    assert_int_equal(r.sample.abi, OUTSIDE_ABI_32);
}

static void test_mapping(void **state)
{
    (void)state;
    struct outside_record r;
    struct made m = made_begin();
    made_pair(&m, 7, 8);
    made_word(&m, 0x400000);
    made_word(&m, 0x1000);
    made_word(&m, 0x2000);
    made_pair(&m, 8, 1);
    made_word(&m, 99);
    made_word(&m, 4711);
    made_pair(&m, 5, 2);
    memcpy(&m.words[m.count++], "/bin/no", 8);
    made_trailer(&m, 7, 8, 1234);
    size_t size = made_end(&m, PERF_RECORD_MMAP2, 0);
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_int_equal(r.time_ns, 1234);
    assert_int_equal(r.mapping.start, 0x400000);
    assert_int_equal(r.mapping.inode, 99);
    assert_true(r.mapping.has_generation && r.mapping.generation == 4711);
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
    struct made m = made_begin();
    made_word(&m, 55);
    made_word(&m, 17);
    made_trailer(&m, 7, 8, 1);
    size_t size = made_end(&m, PERF_RECORD_LOST, 0);
    assert_true(outside_record_read(m.words, size, false, &r));
    assert_int_equal(r.kind, OUTSIDE_LOST);
    assert_int_equal(r.lost, 17);
}

/* --- rings -------------------------------------------------------------------------------------
 */

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

/* Two rings, each in order; records go over their ends. Samples are visited where they are. */
static void check_order(bool in_place)
{
    struct fake_ring *fakes = must_calloc(2, sizeof *fakes);
    struct outside_events e = {0};
    struct made m;
    struct seen seen = {0};
    for (unsigned i = 0; i < 2; i++) {
        fakes[i].page.data_head = fakes[i].page.data_tail = FAKE_RING - 104;
        vec_push(&e.rings, (struct outside_ring){.fd = -1,
                                                 .page = &fakes[i].page,
                                                 .bytes = fakes[i].bytes,
                                                 .size = FAKE_RING,
                                                 .has_samples = in_place});
    }
    unsigned count = in_place ? 8 : 20; /* less than half of a ring stays there */
    for (uint64_t time = 1; time <= count; time++) {
        made_sample(&m, 55, 7, 8, time, 24);
        fake_put(&fakes[time % 3 == 0], &m);
    }
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(seen.times[i], i + 1);
    assert_int_equal(e.damaged, 0);

    /* One that may have others before it waits for the next time. */
    made_sample(&m, 55, 7, 8, UINT64_MAX - 1, 24);
    fake_put(&fakes[0], &m);
    outside_events_read(&e, false, note, &seen);
    assert_int_equal(seen.count, count);
    assert_int_equal(fakes[0].page.data_tail == fakes[0].page.data_head, !in_place);
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, count + 1);

    /* A size that is none ends what can be read of a ring, and is counted. */
    made_sample(&m, 55, 7, 8, 22, 24);
    m.words[0] |= UINT64_C(0xffff) << 48;
    fake_put(&fakes[0], &m);
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, count + 1);
    assert_int_equal(e.damaged, 1);
    assert_int_equal(fakes[0].page.data_tail, fakes[0].page.data_head);
    vec_free(&e.rings);
    outside_waiting_free(&e);
    free(fakes);
}

static void test_order(void **state)
{
    (void)state;
    check_order(false);
    check_order(true);
}

/* A ring that is more than half full is emptied, whatever waits. */
static void test_room(void **state)
{
    (void)state;
    struct fake_ring *fake = must_calloc(1, sizeof *fake);
    struct outside_events e = {0};
    struct made m;
    struct seen seen = {0};
    uint64_t time = UINT64_MAX - 64;
    vec_push(&e.rings, (struct outside_ring){.fd = -1,
                                             .page = &fake->page,
                                             .bytes = fake->bytes,
                                             .size = FAKE_RING,
                                             .has_samples = true});
    made_sample(&m, 55, 7, 8, time++, 24);
    fake_put(fake, &m);
    outside_events_read(&e, false, note, &seen);
    assert_int_equal(fake->page.data_tail, 0);
    while (fake->page.data_head <= FAKE_RING / 2) {
        made_sample(&m, 55, 7, 8, time++, 24);
        fake_put(fake, &m);
    }
    outside_events_read(&e, false, note, &seen);
    assert_int_equal(fake->page.data_tail, fake->page.data_head);
    assert_int_equal(seen.count, 0);
    outside_events_read(&e, true, note, &seen);
    assert_int_equal(seen.count, time - (UINT64_MAX - 64));
    vec_free(&e.rings);
    outside_waiting_free(&e);
    free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),  cmocka_unit_test(test_damaged_sample),
        cmocka_unit_test(test_32_bits), cmocka_unit_test(test_mapping),
        cmocka_unit_test(test_lost),    cmocka_unit_test(test_order),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
