/*
 * Arenas as the supervisor reads them: what an honest one says is in the profile, and nothing that
 * a hostile program writes to its own takes the supervisor's memory or its life.
 */
#include "../made_arena.h"
#include "profile/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const struct arena_events cpu = {.mask = EVENT_CPU};
static const struct arena_events all_events = {.mask = EVENT_CPU | EVENT_WALL | EVENT_MALLOC |
                                                       EVENT_HEAP | EVENT_LOCK | EVENT_IO,
                                               .memory_period_bytes = 1};

static char folder[64], *output;

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/arena-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    output = must_format("%s/made.ctp", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char *command = must_format("rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    free(command);
    free(output);
    return 0;
}

static const struct record_engine *engine_of(bool is_exact)
{
    return record_engine_at(is_exact ? ENGINE_exact : ENGINE_sample);
}

static struct fenced made(const struct arena_events *events, bool is_exact)
{
    struct made_arena a = made_arena(events, is_exact);
    struct fenced f = fence(a.words, (size_t)a.place * 8);
    free(a.words);
    return f;
}

static struct arena_header *header_of(const struct fenced *f)
{
    return (struct arena_header *)(void *)f->bytes;
}

static struct arena_thread *thread_of(const struct fenced *f, uint32_t place)
{
    return (struct arena_thread *)(void *)(f->bytes + (size_t)place * 8);
}

/* Threads are newest first. */
static struct arena_thread *first_thread(const struct fenced *f)
{
    return thread_of(f, thread_of(f, header_of(f)->first_thread)->next);
}

static void collect(const struct fenced *f, const struct arena_events *events, bool is_exact,
                    struct profile *out)
{
    struct ct_error err;
    if (collect_bytes(f, engine_of(is_exact), events, output, &err) != CT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(profile_open(output, out, &err), CT_OK);
    assert_int_equal(profile_validate(out, &err), CT_OK);
}

static uint64_t sum_of(const struct profile *p, const char *metric)
{
    uint32_t number = profile_find_metric(p, metric);
    assert_int_not_equal(number, CTP_NONE);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->node_count; i++)
        sum += profile_value(p, number, i);
    return sum;
}

static void honest_samples_are_collected(void **state)
{
    (void)state;
    struct fenced f = made(&cpu, false);
    struct profile p;
    collect(&f, &cpu, false, &p);
    assert_int_equal(profile_thread_count(&p), 2);
    assert_int_equal(p.node_count, 5); /* the root, main, f; the phase's root, main */
    assert_int_equal(profile_root_count(&p), 2);
    assert_int_equal(profile_module_count(&p), 2);
    assert_int_equal(profile_root(&p, 0)->epoch, CTP_NONE);
    const struct ctp_epoch *phase = profile_epoch(&p, profile_root(&p, 1)->epoch);
    assert_string_equal(profile_string(&p, phase->name), "reading");
    assert_int_equal(sum_of(&p, "cpu"), 9 * UINT64_C(1001001));
    assert_string_equal(profile_string(&p, profile_process(&p, 0)->command), "/bin/made");
    profile_close(&p);
    unfence(&f);
}

/* Below the samples' nodes: of the start of main, of f and g, and of the place that calls g. */
static void honest_records_are_collected(void **state)
{
    (void)state;
    struct fenced f = made(&cpu, true);
    struct profile p;
    collect(&f, &cpu, true, &p);
    assert_int_equal(sum_of(&p, "calls"), 32);
    assert_int_equal(p.node_count, 5 + 3);
    profile_close(&p);
    unfence(&f);
}

/* Each of the thousand says that it has room for four gigabytes. */
static void records_without_end_take_no_memory(void **state)
{
    (void)state;
    struct fenced f = made(&cpu, true);
    uint32_t place = exact_counts_in(first_thread(&f))->first_record_chunk;
    struct arena_record_chunk *chunk = (void *)(f.bytes + (size_t)place * 8);
    chunk->next = place;
    chunk->room = chunk->used = UINT32_MAX;
    struct profile p;
    collect(&f, &cpu, true, &p);
    profile_close(&p);
    unfence(&f);
}

/* The one thread is its own next, as often as threads fit into the arena. Its nodes are there once
 * for each chunk that fits; all other times it has a root alone. */
static void nodes_of_threads_without_end_are_bounded(void **state)
{
    (void)state;
    struct fenced f = made(&cpu, false);
    struct arena_thread *t = first_thread(&f);
    header_of(&f)->first_thread = t->next = thread_of(&f, header_of(&f)->first_thread)->next;
    struct profile p;
    collect(&f, &cpu, false, &p);
    uint64_t chunks = f.size / chunk_bytes(sizeof(struct arena_node));
    assert_in_range(chunks, 1, 4);
    assert_true(profile_thread_count(&p) > chunks);
    assert_int_equal(p.node_count, 5 * chunks + profile_thread_count(&p) - chunks);
    profile_close(&p);
    unfence(&f);
}

/* No byte from there to the end of memory is 0. */
static void a_program_without_an_end_is_cut(void **state)
{
    (void)state;
    struct fenced f = made(&cpu, false);
    struct arena_header *h = header_of(&f);
    memset(h->program, 'x', f.size - offsetof(struct arena_header, program));
    h->first_thread = h->first_module = 0;
    struct profile p;
    collect(&f, &cpu, false, &p);
    const char *command = profile_string(&p, profile_process(&p, 0)->command);
    assert_int_equal(strlen(command), ARENA_PROGRAM_BYTES - 1);
    profile_close(&p);
    unfence(&f);
}

/* What is read of an arena: not the program's name and what it changed, nor rooms for more. */
static bool is_of_interest(const struct fenced *f, size_t at)
{
    size_t program = offsetof(struct arena_header, program);
    size_t changes = offsetof(struct arena_header, changes);
    if ((at >= program && at < program + ARENA_PROGRAM_BYTES) ||
        (at >= changes && at < sizeof(struct arena_header)))
        return false;
    static const char zeros[64];
    return at < sizeof(struct arena_header) || at < 64 ||
           memcmp(f->bytes + at - 64, zeros, sizeof zeros) != 0;
}

static void damage_each_word(const struct arena_events *events, bool is_exact)
{
    struct fenced f = made(events, is_exact);
    char *trace = must_format("%s/made.trace", folder);
    for (size_t at = 0; at + 4 <= f.size; at += 4) {
        uint32_t was, here = (uint32_t)(at / 8), last = (uint32_t)(f.size / 8);
        const uint32_t values[] = {0, 1, here, last - 1, last, UINT32_MAX};
        if (!is_of_interest(&f, at))
            continue;
        memcpy(&was, f.bytes + at, sizeof was);
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            struct ct_error err;
            memcpy(f.bytes + at, &values[i], sizeof values[i]);
            collect_bytes(&f, engine_of(is_exact), events, output, &err);
            if (is_exact)
                trace_bytes(&f, trace, &err);
        }
        memcpy(f.bytes + at, &was, sizeof was);
    }
    free(trace);
    unfence(&f);
}

static void no_damaged_word_of_samples_hurts(void **state)
{
    (void)state;
    damage_each_word(&all_events, false);
}

static void no_damaged_word_of_records_hurts(void **state)
{
    (void)state;
    damage_each_word(&cpu, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_samples_are_collected),
        cmocka_unit_test(honest_records_are_collected),
        cmocka_unit_test(a_program_without_an_end_is_cut),
        cmocka_unit_test(records_without_end_take_no_memory),
        cmocka_unit_test(nodes_of_threads_without_end_are_bounded),
        cmocka_unit_test(no_damaged_word_of_samples_hurts),
        cmocka_unit_test(no_damaged_word_of_records_hurts),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
