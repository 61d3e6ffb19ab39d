/*
 * What is counted beside costs: which function it belongs to, and what costs are divided by.
 */
#include "query/outline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[96];

/*
 * main calls worker, which calls leaf. The code of bump, inlined into worker, is what worker does
 * itself: frame 1 is there, frame 2 is at a place of worker alone, and the call of leaf, frame 3,
 * is in bump, too.
 */
enum { MAIN, IN_BUMP, IN_WORKER, CALLS_LEAF, LEAF };
static const uint32_t parents[] = {CTP_NONE, 0, 1, 1, 1, 4};
static const uint32_t frames[] = {CTP_NONE, MAIN, IN_BUMP, IN_WORKER, CALLS_LEAF, LEAF};
enum { NODES = 6, METRICS_MAX = 4 };

struct measured {
    const char *name, *unit;
    uint64_t values[NODES];
};

static void add_code(struct profile_writer *w)
{
    static const char *const names[] = {"main", "worker", "leaf", "bump"};
    uint32_t file = profile_add_string(w, "a.c");
    profile_add_module(w, &(struct ctp_module){.path = profile_add_string(w, "/bin/prog"),
                                               .kind = CTP_MODULE_FILE,
                                               .size = 0x1000});
    for (uint32_t i = 0; i < 4; i++)
        profile_add_function(w, &(struct ctp_function){.offset = i < 3 ? 0x100 * i : 0,
                                                       .size = i < 3 ? 0x80 : 0,
                                                       .name = profile_add_string(w, names[i]),
                                                       .file = file,
                                                       .line = 10 * (i + 1)});
    profile_add_line(w, &(struct ctp_line){.function = 3, .file = file, .line = 41});
    profile_add_line(w, &(struct ctp_line){.function = 1, .file = file, .line = 21});
    profile_add_frame(w, &(struct ctp_frame){.offset = 0x10, .function = 0});
    profile_add_frame(w, &(struct ctp_frame){.offset = 0x110, .function = 1, .line_count = 2});
    profile_add_frame(w, &(struct ctp_frame){.offset = 0x120, .function = 1});
    profile_add_frame(w, &(struct ctp_frame){.offset = 0x130, .function = 1, .line_count = 2});
    profile_add_frame(w, &(struct ctp_frame){.offset = 0x210, .function = 2});
}

static void write_profile(const struct measured *metrics, uint32_t count)
{
    struct profile_writer *w;
    struct ct_error err = {""};
    assert_int_equal(profile_writer_open(path, &w, &err), CT_OK);
    for (uint32_t i = 0; i < count; i++)
        profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, metrics[i].name),
                                                   .unit = profile_add_string(w, metrics[i].unit)});
    add_code(w);
    profile_add_process(w, &(struct ctp_process){.pid = 7, .parent = CTP_NONE}, 0, NULL);
    profile_add_thread(w, &(struct ctp_thread){.tid = 7, .creator = CTP_NONE});
    profile_begin_nodes(w, NODES);
    profile_add_root(w, 0, CTP_NONE);
    profile_write_nodes(w, parents, frames, NODES);
    for (uint32_t i = 0; i < count; i++)
        profile_write_values(w, i, metrics[i].values, NODES);
    int status = profile_writer_commit(w, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, CT_OK);
}

/* The rows of the tree of calls, as "function total/self/count", in order of depth. */
static const char *rows_of(const char *metric)
{
    static char text[512];
    struct profile profile;
    struct view view;
    struct outline outline;
    struct ct_error err = {""};
    assert_int_equal(profile_open(path, &profile, &err), CT_OK);
    struct view_options options = {.metric = metric, .with_counts = true};
    assert_int_equal(view_open(&profile, &options, &view, &err), CT_OK);
    outline_topdown(&view, &(struct outline_options){.min_total = 1}, &outline);
    text[0] = '\0';
    for (uint32_t i = 0; i < outline.rows.count; i++) {
        const struct outline_row *row = &outline.rows.items[i];
        char name[64];
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s %u/%u/%u", used ? ", " : "",
                 label_name(&view.labels, row->label, name, sizeof name), (unsigned)row->total,
                 (unsigned)row->self, (unsigned)row->count);
    }
    outline_free(&outline);
    view_close(&view);
    profile_close(&profile);
    return text;
}

static void inlined_functions_have_costs_and_no_calls(void **state)
{
    (void)state;
    const struct measured metrics[] = {
        {"cpu", "ns", {0, 1, 20, 3, 400, 50}},
        {"calls", "calls", {0, 1, 142, 58, 0, 7}},
        {"returns", "returns", {0, 1, 142, 50, 8, 7}},
        {"malloc_calls", "calls", {0, 1, 142, 58, 0, 7}},
    };
    write_profile(metrics, 4);
    assert_string_equal(rows_of("calls"), "main 208/1/0, worker 207/200/0, bump 7/0/0, leaf 7/7/0");
    assert_string_equal(rows_of("cpu"),
                        "main 474/1/1, worker 473/3/200, bump 470/420/0, leaf 50/50/7");
    /* A function that asks for memory may well be inlined. */
    assert_string_equal(rows_of("malloc_calls"),
                        "main 208/1/0, worker 207/58/0, bump 149/142/0, leaf 7/7/0");
}

/* Fifty naps of worker in leaf, of which a sample saw one return. */
static void returns_go_with_cpu_time_only(void **state)
{
    (void)state;
    const struct measured metrics[] = {
        {"cpu", "ns", {0, 1, 20, 3, 400, 50}},
        {"wall", "ns", {0, 1, 20, 3, 400, 500000}},
        {"blocked", "ns", {0, 0, 0, 0, 0, 499000}},
        {"returns", "returns", {0, 1, 0, 0, 0, 1}},
    };
    write_profile(metrics, 4);
    assert_string_equal(rows_of("cpu"),
                        "main 474/1/1, worker 473/3/0, bump 470/420/0, leaf 50/50/1");
    assert_string_equal(
        rows_of("wall"),
        "main 500424/1/0, worker 500423/3/0, bump 500420/420/0, leaf 500000/500000/0");
    assert_string_equal(rows_of("blocked"), "main 499000/0/0, worker 499000/0/0, bump 499000/0/0, "
                                            "leaf 499000/499000/0");
}

/* What is counted where it is charged adds up over what is called, as the cost does. */
static void waits_and_allocations_are_divided_by_their_own_count(void **state)
{
    (void)state;
    const struct measured metrics[] = {
        {"lock", "ns", {0, 0, 300, 0, 0, 5000}},
        {"lock_waits", "waits", {0, 0, 3, 0, 0, 50}},
        {"malloc", "bytes", {0, 64, 0, 0, 0, 640}},
        {"malloc_calls", "calls", {0, 1, 0, 0, 0, 20}},
    };
    write_profile(metrics, 4);
    assert_string_equal(rows_of("lock"), "main 5300/0/53, worker 5300/0/53, bump 5300/300/53, "
                                         "leaf 5000/5000/50");
    assert_string_equal(rows_of("malloc"),
                        "main 704/64/21, worker 640/0/20, bump 640/0/20, leaf 640/640/20");
}

/* Engine exact: any time or memory, by the calls of the function itself. */
static void all_costs_are_divided_by_calls_where_all_are_counted(void **state)
{
    (void)state;
    const struct measured metrics[] = {
        {"cpu", "ns", {0, 1, 20, 3, 400, 50}},
        {"io_read", "bytes", {0, 0, 0, 0, 0, 4096}},
        {"calls", "calls", {0, 1, 142, 58, 0, 7}},
        {"height", "bytes", {0, 0, 0, 0, 0, 32}},
    };
    write_profile(metrics, 4);
    assert_string_equal(rows_of("cpu"),
                        "main 474/1/1, worker 473/3/200, bump 470/420/0, leaf 50/50/7");
    assert_string_equal(rows_of("io_read"), "main 4096/0/1, worker 4096/0/200, bump 4096/0/0, "
                                            "leaf 4096/4096/7");
    assert_string_equal(rows_of("height"), "main 32/0/0, worker 32/0/0, bump 32/0/0, leaf 32/32/0");
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/calltrail-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/p.ctp", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inlined_functions_have_costs_and_no_calls),
        cmocka_unit_test(returns_go_with_cpu_time_only),
        cmocka_unit_test(waits_and_allocations_are_divided_by_their_own_count),
        cmocka_unit_test(all_costs_are_divided_by_calls_where_all_are_counted),
    };
    return cmocka_run_group_tests_name("counts", tests, make_folder, remove_folder);
}
