/*
 * The profile file: what is written is read back, and what is invalid is not written.
 */
#include "small_profile.h"

#include "profile/time_range.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- Reading back ---------------------------------------------------------------------------- */

static void reads_back_code_and_tree(void **state)
{
    (void)state;
    write_small();
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_validate(&p, &err), CT_OK);

    assert_int_equal(p.node_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(profile_parent(&p, i), small_parents[i]);
        assert_int_equal(profile_node_frame(&p, i), small_frames[i]);
        assert_int_equal(profile_value(&p, 0, i), small_values[0][i]);
        assert_int_equal(profile_value(&p, 1, i), small_values[1][i]);
        assert_int_equal(profile_root_of(&p, i), i < 4 ? 0 : 1);
    }
    assert_int_equal(profile_root(&p, 1)->first_node, 4);
    assert_int_equal(profile_root(&p, 1)->node_count, 2);
    assert_int_equal(profile_root(&p, 1)->epoch, CTP_NONE);

    const struct ctp_module *module = profile_module(&p, 0);
    assert_string_equal(profile_string(&p, module->path), "/bin/prog");
    assert_int_equal(module->build_id[1], 0xcd);
    const struct ctp_frame *frame = profile_frame(&p, 0);
    const struct ctp_line *line = profile_frame_line(&p, frame, 0);
    assert_int_equal(line->line, 11);
    assert_string_equal(profile_string(&p, profile_function(&p, line->function)->name), "work");
    assert_int_equal(profile_frame_line(&p, frame, 1)->line, 5);
    assert_null(profile_frame_line(&p, frame, 2));

    char name[64];
    assert_string_equal(profile_node_name(&p, 3, name, sizeof name), "main");
    assert_string_equal(profile_node_name(&p, 5, name, sizeof name), "[stack not readable]");
    assert_string_equal(profile_node_name(&p, 4, name, sizeof name), "[thread helper]");
    profile_close(&p);
}

static void reads_back_what_ran_and_facts(void **state)
{
    (void)state;
    write_small();
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    const struct ctp_process *process = profile_process(&p, 0);
    assert_string_equal(profile_argument(&p, process, 2), "two words");
    assert_null(profile_argument(&p, process, 3));
    assert_string_equal(profile_argument(&p, profile_process(&p, 1), 0), "prog");
    assert_null(profile_argument(&p, profile_process(&p, 1), 1));
    assert_int_equal(profile_process_parent(&p, 0), CTP_NONE);
    assert_int_equal(profile_process_parent(&p, 1), 0);
    assert_int_equal(profile_thread(&p, 1)->creator, 2);
    assert_int_equal(profile_find_metric(&p, "calls"), 1);
    assert_int_equal(profile_find_metric(&p, "nothing"), CTP_NONE);

    const struct ctp_fact *fact = profile_find_fact(&p, CTP_SCOPE_PROFILE, 0, "alpha");
    assert_true(profile_fact_double(fact) == 2.5);
    fact = profile_find_fact(&p, CTP_SCOPE_PROFILE, 0, "zulu");
    assert_true((int64_t)fact->value == -5);
    fact = profile_find_fact(&p, CTP_SCOPE_PROCESS, 1, "machine");
    assert_string_equal(profile_string(&p, fact->value), "x86");
    assert_null(profile_find_fact(&p, CTP_SCOPE_PROCESS, 0, "machine"));
    assert_int_equal(profile_find_fact(&p, CTP_SCOPE_METRIC, 1, "samples")->value, 17);
    struct profile_range range = profile_facts_of(&p, CTP_SCOPE_PROFILE, 0);
    assert_int_equal(range.end - range.first, 2);
    profile_close(&p);
}

static void times_are_in_order(void **state)
{
    (void)state;
    write_small();
    static const struct ctp_time expected[] = {{1, 5}, {2, 5}, {1, 9}, {2, 3}};
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_time_run_count(&p), 2);
    assert_int_equal(profile_time_run(&p, 0)->count, 3);
    assert_int_equal(profile_time_run(&p, 1)->first, 3);
    assert_int_equal(profile_time_run(&p, 1)->span, 1);
    assert_memory_equal(profile_times(&p), expected, sizeof expected);
    uint64_t first, last;
    assert_true(profile_time_span(&p, &first, &last));
    assert_int_equal(first, 5);
    assert_int_equal(last, (UINT64_C(1) << 32) + 3);
    profile_close(&p);
}

static void range_has(const struct time_range *range, uint64_t node_1, uint64_t node_2)
{
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_restrict(&p, range, NULL, &err), CT_OK);
    assert_int_equal(p.metric_count, 1); /* the other has no times */
    assert_int_equal(profile_find_metric(&p, "calls"), CTP_NONE);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(profile_value(&p, 0, i), i == 1 ? node_1 : i == 2 ? node_2 : 0);
    uint64_t total;
    assert_int_equal(profile_without_time(&p, 0, &total), 18 - 5);
    assert_int_equal(total, 18);
    /* Facts of metric 1 went with it, and counts of the whole profile; others stay. */
    assert_null(profile_find_fact(&p, CTP_SCOPE_METRIC, 1, "samples"));
    assert_non_null(profile_find_fact(&p, CTP_SCOPE_PROFILE, 0, "zulu"));
    assert_int_equal(profile_verify_values(&p, CTP_NONE, &err), CT_OK);
    profile_close(&p);
}

static void a_range_has_what_was_sampled_in_it(void **state)
{
    (void)state;
    write_small();
    range_has(&(struct time_range){true, true, 5, 9}, 1, 1); /* the end is outside */
    range_has(&(struct time_range){true, true, 5, 10}, 2, 1);
    range_has(&(struct time_range){true, false, 6, 0}, 1, 2);
    range_has(&(struct time_range){false, true, 0, 6}, 1, 1);
    range_has(&(struct time_range){true, true, 20, 30}, 0, 0);
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_restrict(&p, &(struct time_range){true, false, 6, 0}, "calls", &err),
                     CT_ERROR);
    assert_non_null(strstr(err.text, "calls has no times"));
    assert_int_equal(profile_restrict(&p, &(struct time_range){true, true, 6, 6}, NULL, &err),
                     CT_ERROR);
    profile_close(&p);
}

static void indices_outside_give_empty_records(void **state)
{
    (void)state;
    write_small();
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_function(&p, 2)->module, CTP_NONE);
    assert_int_equal(profile_frame(&p, CTP_NONE)->function, CTP_NONE);
    assert_string_equal(profile_string(&p, p.strings_size), "");
    assert_int_equal(profile_parent(&p, 6), CTP_NONE);
    assert_int_equal(profile_node_frame(&p, CTP_NONE), CTP_NONE);
    assert_int_equal(profile_value(&p, 2, 0), 0);
    assert_int_equal(profile_value(&p, 0, 6), 0);
    assert_int_equal(profile_root_of(&p, 6), CTP_NONE);
    profile_close(&p);
}

static void statistics_are_those_of_the_tree(void **state)
{
    (void)state;
    write_small();
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    struct profile_stats stats;
    profile_stats(&p, &stats);
    assert_int_equal(stats.max_depth, 2);
    assert_int_equal(stats.deepest_node, 2);
    assert_int_equal(stats.leaves, 3); /* 2, 3 and 5 */
    assert_true(stats.mean_depth == (0 + 1 + 2 + 2 + 0 + 1) / 6.0);
    assert_int_equal(stats.metrics[0].total, 18);
    assert_int_equal(stats.metrics[0].contexts, 3);
    assert_int_equal(stats.metrics[0].heaviest_node, 1);
    assert_int_equal(stats.metrics[1].total, 8);
    assert_int_equal(stats.metrics[1].heaviest_node, 0);
    profile_stats_free(&stats);
    profile_close(&p);
}

static void empty_profile_is_a_profile(void **state)
{
    (void)state;
    commit(begin());
    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_open(path, &p, &err), CT_OK);
    assert_int_equal(profile_validate(&p, &err), CT_OK);
    FILE *nowhere = fopen("/dev/null", "w");
    profile_print_text(&p, false, nowhere);
    profile_print_text(&p, true, nowhere);
    profile_print_json(&p, nowhere);
    fclose(nowhere);
    profile_close(&p);
}

/* The same nodes in other chunks, with values that lag behind, are the same file. */
static void chunks_do_not_matter(void **state)
{
    (void)state;
    enum { NODES = 300000 };
    uint32_t *parents = must_calloc(NODES, sizeof *parents);
    uint32_t *frames = must_calloc(NODES, sizeof *frames);
    uint64_t *values = must_calloc(NODES, sizeof *values);
    for (uint32_t i = 0; i < NODES; i++) {
        parents[i] = i ? (i - 1) / 3 : CTP_NONE;
        frames[i] = i ? i % 3 : CTP_NONE;
        values[i] = i * UINT64_C(7919);
    }
    uint8_t *bytes[2];
    size_t sizes[2];
    for (int way = 0; way < 2; way++) {
        struct profile_writer *w = begin();
        add_metrics(w);
        profile_begin_nodes(w, NODES);
        add_code(w);
        add_what_ran(w);
        profile_add_root(w, 0, 0);
        /* A few, so that the buffer is not empty; then more than a buffer holds; then the rest. */
        uint32_t chunk = way == 0 ? NODES : 5;
        for (uint32_t at = 0; at < NODES; at += chunk, chunk = 70001)
            profile_write_nodes(w, parents + at, frames + at,
                                NODES - at < chunk ? NODES - at : chunk);
        chunk = way == 0 ? NODES : 777;
        for (uint32_t at = 0; at < NODES; at += chunk)
            profile_write_values(w, 1, values + at, NODES - at < chunk ? NODES - at : chunk);
        if (way == 1) /* metric 0: zeros, said and not said */
            profile_write_values(w, 0, (const uint64_t[]){0, 0, 0}, 3);
        commit(w);
        bytes[way] = read_back(&sizes[way]);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);

    struct profile p;
    struct ct_error err;
    assert_int_equal(profile_from_bytes(bytes[1], sizes[1], "x", &p, &err), CT_OK);
    assert_int_equal(profile_validate(&p, &err), CT_OK);
    assert_memory_equal(p.values[1], values, NODES * sizeof *values);
    assert_memory_equal(p.parents, parents, NODES * sizeof *parents);
    profile_close(&p);
    free(bytes[0]);
    free(bytes[1]);
    free(parents);
    free(frames);
    free(values);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The commit fails with this reason, and what was at `path` before is still there, alone. */
static void expect_refusal(struct profile_writer *w, const char *expected)
{
    struct ct_error err;
    assert_int_equal(profile_writer_commit(w, &err), CT_ERROR);
    char full[256];
    snprintf(full, sizeof full, "%s: %s", path, expected);
    assert_string_equal(err.text, full);
    size_t size;
    uint8_t *bytes = read_back(&size);
    assert_true(survives(bytes, size));
    free(bytes);
    assert_int_equal(files_in_folder(), 1);
}

static void expect_bad_nodes(const uint32_t *parents, const uint32_t *frames, const char *expected)
{
    struct profile_writer *w = begin_small();
    add_small_roots(w);
    profile_write_nodes(w, parents, frames, 6);
    expect_refusal(w, expected);
}

static void invalid_nodes_are_not_written(void **state)
{
    (void)state;
    write_small();
    uint32_t p[6], f[6];
#define CASE(array, i, value, expected)                                                            \
    do {                                                                                           \
        memcpy(p, small_parents, sizeof p);                                                        \
        memcpy(f, small_frames, sizeof f);                                                         \
        (array)[i] = (value);                                                                      \
        expect_bad_nodes(p, f, expected);                                                          \
    } while (0)
    CASE(p, 2, 2, "nodes 2: its parent does not come before it");
    CASE(p, 2, 5, "nodes 2: its parent does not come before it");
    CASE(p, 0, 0, "nodes 0: its parent does not come before it");
    CASE(p, 5, 0, "nodes 5: its parent belongs to another root");
    CASE(f, 0, 0, "nodes 0: it is a root, but has a frame");
    CASE(f, 3, CTP_NONE, "nodes 3: it has no frame, but is not a root");
    CASE(f, 3, 3, "nodes 3: its frame is 3, but there are only 3");
#undef CASE
}

static void wrong_counts_are_not_written(void **state)
{
    (void)state;
    write_small();
    struct profile_writer *w = begin_small();
    add_small_roots(w);
    profile_write_nodes(w, small_parents, small_frames, 5);
    expect_refusal(w, "5 nodes were written, but 6 were announced");

    w = begin_small();
    profile_write_nodes(w, small_parents, small_frames, 6);
    profile_write_nodes(w, small_parents, small_frames, 1);
    expect_refusal(w, "more than the 6 nodes that were announced");

    w = begin_small();
    profile_add_root(w, 0, 0);
    profile_write_nodes(w, small_parents, small_frames, 6);
    expect_refusal(w, "1 roots were added, but 2 nodes have no parent");

    w = begin_small();
    profile_write_values(w, 0, small_values[0], 6);
    profile_write_values(w, 0, small_values[0], 1);
    expect_refusal(w, "metric 0 has more values than there are nodes");

    w = begin_small();
    profile_write_values(w, 2, small_values[0], 1);
    expect_refusal(w, "values of metric 2, which does not exist");

    w = begin();
    add_metrics(w);
    profile_write_values(w, 0, small_values[0], 1);
    expect_refusal(w, "values were written before the nodes were begun");

    w = begin();
    profile_write_nodes(w, small_parents, small_frames, 1);
    expect_refusal(w, "more than the 0 nodes that were announced");

    w = begin_small();
    add_metrics(w);
    expect_refusal(w, "a metric was added after the nodes were begun");

    w = begin_small();
    profile_begin_nodes(w, 6);
    expect_refusal(w, "the nodes were begun twice");

    w = begin_small();
    profile_write_values(w, 0, (const uint64_t[]){UINT64_MAX}, 1);
    profile_write_values(w, 0, (const uint64_t[]){1}, 1);
    expect_refusal(w, "the total of metric 0 does not fit in 64 bits");
}

static void invalid_records_are_not_written(void **state)
{
    (void)state;
    write_small();
    struct profile_writer *w = begin();
    profile_add_function(w, &(struct ctp_function){.module = 0});
    expect_refusal(w, "functions 0: its module is 0, but there are only 0");
    w = begin();
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "twice", 1);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "once", 1);
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, "twice", 2);
    expect_refusal(w, "facts 2: its key is there already");
    w = begin();
    profile_fact_u64(w, CTP_SCOPE_THREAD, 0, "lost", 1);
    expect_refusal(w, "facts 0: its index is 0, but there are only 0");
    w = begin();
    char key[CTP_KEY_MAX + 2];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, key, 1);
    expect_refusal(w, "facts 0: its key is too long");
    w = begin();
    profile_fact_u64(w, CTP_SCOPE_PROFILE, 0, key + 1, 1); /* as long as it may be */
    commit(w);
}

static void abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    struct profile_writer *w = begin_small();
    profile_write_nodes(w, small_parents, small_frames, 6);
    profile_writer_abandon(w);
    assert_int_equal(files_in_folder(), 0);
}

/* A limit on the size of files stands for a full disk: the write fails in the same place. */
static void full_disk_is_an_error(void **state)
{
    (void)state;
    write_small();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, low;
    getrlimit(RLIMIT_FSIZE, &old);
    low = (struct rlimit){4096, old.rlim_max};
    enum { NODES = 100000 };
    uint64_t *values = must_calloc(NODES, sizeof *values);
    uint32_t *parents = must_calloc(NODES, sizeof *parents);
    uint32_t *frames = must_calloc(NODES, sizeof *frames);
    parents[0] = frames[0] = CTP_NONE;
    struct profile_writer *w = begin();
    setrlimit(RLIMIT_FSIZE, &low);
    add_metrics(w);
    profile_begin_nodes(w, NODES);
    add_code(w);
    profile_add_root(w, CTP_NONE, CTP_NONE);
    profile_write_nodes(w, parents, frames, NODES);
    profile_write_values(w, 0, values, NODES);
    expect_refusal(w, "cannot be written: File too large");
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
    free(values);
    free(parents);
    free(frames);
}

static void unwritable_folder_is_an_error(void **state)
{
    (void)state;
    struct profile_writer *w;
    struct ct_error err;
    assert_int_equal(profile_writer_open("/nonexistent/folder/p.ctp", &w, &err), CT_ERROR);
    assert_non_null(strstr(err.text, "/nonexistent/folder/p.ctp: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_back_code_and_tree),
        TEST(reads_back_what_ran_and_facts),
        TEST(times_are_in_order),
        TEST(a_range_has_what_was_sampled_in_it),
        TEST(indices_outside_give_empty_records),
        TEST(statistics_are_those_of_the_tree),
        TEST(empty_profile_is_a_profile),
        TEST(chunks_do_not_matter),
        TEST(invalid_nodes_are_not_written),
        TEST(wrong_counts_are_not_written),
        TEST(invalid_records_are_not_written),
        TEST(abandoned_file_leaves_nothing),
        TEST(full_disk_is_an_error),
        TEST(unwritable_folder_is_an_error),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}
