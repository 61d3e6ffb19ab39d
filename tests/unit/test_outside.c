/* Who a sample is charged to: by made records of processes that come, go and become others. */
#include "made_records.h"
#include "record/arena_view.h"
#include "record/outside/outside.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum { FIRST = 1000000, OWN_EVENT = 55, LATER_EVENT = 56, OTHER_EVENT = 57 };

struct scene {
    struct server server;
    struct outside outside;
    struct fake_ring ring;
    char cache[64];
};

static void add_event(struct outside_events *e, uint64_t id, uint32_t tid, uint32_t generation,
                      uint64_t opened_ns)
{
    key_set_add(&e->ids, &id);
    vec_push(&e->events, (struct outside_event){.fd = -1,
                                                .tid = tid,
                                                .is_sampling = true,
                                                .generation = generation,
                                                .opened_ns = opened_ns});
}

/* A process that waits for exec, with an event of its own. */
static int begin(void **state)
{
    struct scene *s = must_calloc(1, sizeof *s);
    struct outside_events *e = &s->outside.events;
    strcpy(s->cache, "/tmp/outside-unit-XXXXXX");
    assert_non_null(mkdtemp(s->cache));
    setenv("XDG_CACHE_HOME", s->cache, 1);
    assert_int_equal(server_open(&s->server, 1001001, 0, NULL), CT_OK);
    s->server.is_outside = true;
    s->server.events.mask = EVENT_CPU;
    s->outside.server = &s->server;
    s->outside.files.maps = &s->server.maps;
    s->outside.until_ns = UINT64_MAX;
    e->wanted.follow = true;
    e->generations[0].until_ns = UINT64_MAX;
    key_set_init(&e->ids, sizeof(uint64_t));
    vec_push(&e->rings,
             (struct outside_ring){
                 .fd = -1, .page = &s->ring.page, .bytes = s->ring.bytes, .size = FAKE_RING});
    add_event(e, OWN_EVENT, FIRST, 0, 0);
    struct outside_process *p = outside_process_new(FIRST, 0, 0);
    outside_thread_add(p, FIRST, "", 0)->own = 1;
    vec_push(&s->outside.processes, p);
    *state = s;
    return 0;
}

static int end(void **state)
{
    struct scene *s = *state;
    char command[128];
    vec_free(&s->outside.events.rings); /* they are not mapped */
    outside_end(&s->outside);
    server_close(&s->server, false);
    snprintf(command, sizeof command, "rm -rf %s", s->cache);
    assert_int_equal(system(command), 0);
    free(s);
    return 0;
}

static void sample(struct scene *s, uint64_t id, uint32_t pid, uint32_t tid, uint64_t time)
{
    struct made m;
    made_sample(&m, id, pid, tid, time, 24);
    fake_put(&s->ring, &m);
}

static void task_by(struct scene *s, bool is_fork, uint32_t pid, uint32_t tid, uint32_t parent,
                    uint32_t thread, uint64_t time)
{
    struct made m = made_begin();
    made_pair(&m, pid, parent);
    made_pair(&m, tid, thread);
    made_word(&m, time);
    made_trailer(&m, parent, parent, time);
    made_end(&m, is_fork ? PERF_RECORD_FORK : PERF_RECORD_EXIT, 0);
    fake_put(&s->ring, &m);
}

static void task(struct scene *s, bool is_fork, uint32_t pid, uint32_t tid, uint32_t parent,
                 uint64_t time)
{
    task_by(s, is_fork, pid, tid, parent, parent, time);
}

static void exec(struct scene *s, uint32_t pid, const char *path, uint64_t time)
{
    struct made m = made_begin();
    made_pair(&m, pid, pid);
    memcpy(&m.words[m.count++], "program", 8);
    made_trailer(&m, pid, pid, time);
    made_end(&m, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
    fake_put(&s->ring, &m);
    m = made_begin();
    made_pair(&m, pid, pid);
    made_word(&m, 0x400000);
    made_word(&m, 0x100000);
    for (unsigned i = 0; i < 5; i++)
        made_word(&m, 0); /* no file that could be had */
    char text[16] = "";
    snprintf(text, sizeof text, "%s", path);
    memcpy(&m.words[m.count], text, sizeof text);
    m.count += 2;
    made_trailer(&m, pid, pid, time + 1);
    made_end(&m, PERF_RECORD_MMAP2, 0);
    fake_put(&s->ring, &m);
}

/* The samples in an arena, of one thread or (0) of all. */
static uint64_t samples_of(const struct scene *s, size_t arena, uint32_t tid)
{
    struct arena_view v = arena_view_now(&s->server.arenas.items[arena]);
    const struct arena_thread *t;
    uint64_t sum = 0;
    VIEW_EACH(&v, view_header(&v)->first_thread, t) {
        if (!tid || t->tid == tid)
            sum += t->samples;
    }
    return sum;
}

static const char *program_of_arena(const struct scene *s, size_t arena)
{
    return s->server.arenas.items[arena].header->program;
}

/* Each program has an arena; samples go by their times, whatever order they come in. */
static void test_exec(void **state)
{
    struct scene *s = *state;
    sample(s, OWN_EVENT, FIRST, FIRST, 150);
    sample(s, OWN_EVENT, FIRST, FIRST, 250);
    sample(s, OWN_EVENT, FIRST, FIRST, 251);
    exec(s, FIRST, "/first", 100);
    exec(s, FIRST, "/second", 200);
    outside_read(&s->outside, true);
    assert_int_equal(s->server.arenas.count, 2);
    assert_string_equal(program_of_arena(s, 0), "/first");
    assert_string_equal(program_of_arena(s, 1), "/second");
    assert_int_equal(samples_of(s, 0, 0), 1);
    assert_int_equal(samples_of(s, 1, 0), 2);
}

/* A number that has gone to another process is another process. */
static void test_reused_number(void **state)
{
    struct scene *s = *state;
    enum { CHILD = FIRST + 1 };
    exec(s, FIRST, "/first", 100);
    task(s, true, CHILD, CHILD, FIRST, 200);
    sample(s, OWN_EVENT, CHILD, CHILD, 201);
    task(s, false, CHILD, CHILD, FIRST, 210);
    task(s, true, CHILD, CHILD, FIRST, 300);
    sample(s, OWN_EVENT, CHILD, CHILD, 301);
    sample(s, OWN_EVENT, CHILD, CHILD, 302);
    outside_read(&s->outside, true);
    assert_int_equal(s->server.arenas.count, 3);
    assert_int_equal(s->server.arenas.items[1].header->start_ns, 200);
    assert_int_equal(s->server.arenas.items[1].header->said_ns, 210);
    assert_int_equal(s->server.arenas.items[2].header->start_ns, 300);
    assert_int_equal(samples_of(s, 1, 0), 1);
    assert_int_equal(samples_of(s, 2, 0), 2);
}

/* Of no known process: counted, and charged to none. */
static void test_unknown(void **state)
{
    struct scene *s = *state;
    exec(s, FIRST, "/first", 100);
    sample(s, OWN_EVENT, FIRST + 5, FIRST + 5, 150);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, 0), 0);
    assert_int_equal(s->server.arenas.items[0].header->lost[LOST_NO_THREAD], 1);
    s->outside.events.samples_are_wide = true; /* then it is another process's */
    sample(s, OWN_EVENT, FIRST + 5, FIRST + 5, 151);
    outside_read(&s->outside, true);
    assert_int_equal(s->server.arenas.items[0].header->lost[LOST_NO_THREAD], 1);
}

/* A thread with an event of its own, and one that it has inherited besides. */
static void test_two_events(void **state)
{
    struct scene *s = *state;
    enum { THREAD = FIRST + 2 };
    add_event(&s->outside.events, OTHER_EVENT, THREAD, 0, 150);
    exec(s, FIRST, "/first", 100);
    outside_read(&s->outside, true);
    outside_thread_add(s->outside.processes.items[0], THREAD, "", 140)->own = 1;
    task(s, true, FIRST, THREAD, FIRST, 140); /* it was told of, too */
    sample(s, OTHER_EVENT, FIRST, THREAD, 160);
    sample(s, OWN_EVENT, FIRST, THREAD, 161); /* the first thread's, inherited */
    task(s, false, FIRST, THREAD, FIRST, 170);
    task(s, true, FIRST, THREAD, FIRST, 180); /* another of its number, which has inherited only */
    sample(s, OWN_EVENT, FIRST, THREAD, 190);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, THREAD), 2);
}

/* A thread that such a one has made has inherited both; and so have those that it makes. */
static void test_two_inherited(void **state)
{
    struct scene *s = *state;
    enum { THREAD = FIRST + 2, SECOND, THIRD };
    add_event(&s->outside.events, OTHER_EVENT, THREAD, 0, 150);
    exec(s, FIRST, "/first", 100);
    outside_read(&s->outside, true);
    outside_thread_add(s->outside.processes.items[0], THREAD, "", 140)->own = 1;
    task_by(s, true, FIRST, SECOND, FIRST, THREAD, 160);
    task_by(s, true, FIRST, THIRD, FIRST, SECOND, 161);
    for (uint32_t tid = SECOND; tid <= THIRD; tid++) {
        sample(s, OTHER_EVENT, FIRST, tid, 170 + tid);
        sample(s, OWN_EVENT, FIRST, tid, 170 + tid);
    }
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, SECOND), 1);
    assert_int_equal(samples_of(s, 0, THIRD), 1);
}

/* Two generations of events: each has its time, and none counts twice. */
static void test_generations(void **state)
{
    struct scene *s = *state;
    struct outside_events *e = &s->outside.events;
    enum { THREAD = FIRST + 2 };
    exec(s, FIRST, "/first", 100);
    outside_read(&s->outside, true);
    e->generation = 1;
    e->generations[0].until_ns = 200;
    e->generations[1] = (struct outside_generation){200, UINT64_MAX};
    add_event(e, LATER_EVENT, FIRST, 1, 180);
    add_event(e, OTHER_EVENT, THREAD, 1, 185);
    sample(s, OWN_EVENT, FIRST, FIRST, 190);
    sample(s, LATER_EVENT, FIRST, FIRST, 191);
    sample(s, OWN_EVENT, FIRST, FIRST, 210);
    sample(s, LATER_EVENT, FIRST, FIRST, 211);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, FIRST), 2);
    /* A thread that is heard of only now, and was found before: it has both. */
    task(s, true, FIRST, THREAD, FIRST, 183);
    sample(s, OTHER_EVENT, FIRST, THREAD, 220);
    sample(s, LATER_EVENT, FIRST, THREAD, 221);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, THREAD), 1);
}

/* From some time on samples are of processors: of all processes that run there. */
static void test_processors(void **state)
{
    struct scene *s = *state;
    struct outside_events *e = &s->outside.events;
    enum { THREAD = FIRST + 2, AWAITING };
    exec(s, FIRST, "/first", 100);
    outside_read(&s->outside, true);
    e->samples_are_wide = true;
    e->generation = 1;
    e->generations[0].until_ns = 200;
    e->generations[1] = (struct outside_generation){200, UINT64_MAX};
    add_event(e, LATER_EVENT, UINT32_MAX, 1, 180);
    struct outside_process *p = outside_process_new(AWAITING, FIRST, 0);
    p->awaits_exec = true;
    vec_push(&s->outside.processes, p);
    task(s, true, FIRST, THREAD, FIRST, 183);
    for (uint32_t tid = FIRST; tid <= THREAD; tid += THREAD - FIRST) {
        sample(s, OWN_EVENT, FIRST, tid, 190);
        sample(s, LATER_EVENT, FIRST, tid, 191);
        sample(s, OWN_EVENT, FIRST, tid, 210);
        sample(s, LATER_EVENT, FIRST, tid, 211);
    }
    sample(s, LATER_EVENT, FIRST + 5, FIRST + 5, 212); /* another process */
    sample(s, LATER_EVENT, AWAITING, AWAITING, 213);   /* another program in it */
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, FIRST), 2);
    assert_int_equal(samples_of(s, 0, THREAD), 2);
    assert_int_equal(s->server.arenas.count, 1);
    assert_int_equal(s->server.arenas.items[0].header->lost[LOST_NO_THREAD], 0);
    exec(s, AWAITING, "/second", 220);
    sample(s, LATER_EVENT, AWAITING, AWAITING, 230);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 1, AWAITING), 1);
}

/* --delay and --duration. */
static void test_times(void **state)
{
    struct scene *s = *state;
    s->outside.from_ns = 200;
    s->outside.until_ns = 300;
    exec(s, FIRST, "/first", 100);
    for (uint64_t time = 150; time <= 350; time += 50)
        sample(s, OWN_EVENT, FIRST, FIRST, time);
    outside_read(&s->outside, true);
    assert_int_equal(samples_of(s, 0, 0), 2); /* at 200 and 250 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_exec, begin, end),
        cmocka_unit_test_setup_teardown(test_reused_number, begin, end),
        cmocka_unit_test_setup_teardown(test_unknown, begin, end),
        cmocka_unit_test_setup_teardown(test_two_inherited, begin, end),
        cmocka_unit_test_setup_teardown(test_two_events, begin, end),
        cmocka_unit_test_setup_teardown(test_generations, begin, end),
        cmocka_unit_test_setup_teardown(test_processors, begin, end),
        cmocka_unit_test_setup_teardown(test_times, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
