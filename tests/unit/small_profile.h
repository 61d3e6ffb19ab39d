/*
 * A small profile with something in every table, for the tests of the profile file. Its tree is
 *
 *     node 0  root of thread 0, epoch 0        values 0  5
 *       1     frame 0 (main)                         10  0
 *         2   frame 1 (work)                          7  1
 *         3   frame 0 (main again)                    0  0
 *     node 4  root of thread 1, no epoch              1  0
 *       5     frame 2 (a gap)                         0  2
 */
#ifndef TESTS_SMALL_PROFILE_H
#define TESTS_SMALL_PROFILE_H

#include "base/vec.h"
#include "profile/profile.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[96];

static const uint32_t small_parents[] = {CTP_NONE, 0, 1, 1, CTP_NONE, 4};
static const uint32_t small_frames[] = {CTP_NONE, 0, 1, 0, CTP_NONE, 2};
static const uint64_t small_values[2][6] = {{0, 10, 7, 0, 1, 0}, {5, 0, 1, 0, 0, 2}};

static inline struct profile_writer *begin(void)
{
    struct profile_writer *w;
    struct ct_error err;
    assert_int_equal(profile_writer_open(path, &w, &err), CT_OK);
    return w;
}

static inline void add_code(struct profile_writer *w)
{
    uint32_t file = profile_add_string(w, "a.c");
    profile_add_module(w, &(struct ctp_module){.path = profile_add_string(w, "/bin/prog"),
                                               .kind = CTP_MODULE_FILE,
                                               .base = 0x400000,
                                               .size = 0x1000,
                                               .build_id = {0xab, 0xcd},
                                               .build_id_size = 2});
    profile_add_function(
        w, &(struct ctp_function){0x10, 0x20, profile_add_string(w, "main"), 0, file, 3});
    profile_add_function(
        w, &(struct ctp_function){0x30, 0x40, profile_add_string(w, "work"), 0, file, 9});
    profile_add_line(w, &(struct ctp_line){1, file, 11, 2});
    profile_add_line(w, &(struct ctp_line){0, file, 5, 1});
    profile_add_frame(w, &(struct ctp_frame){0x18, 0, 0, 0, 2, CTP_FRAME_RETURN, 0});
    profile_add_frame(w, &(struct ctp_frame){0x38, 0, 1, 0, 1, 0, 0});
    profile_add_frame(w, &(struct ctp_frame){0xbad, CTP_NONE, CTP_NONE, 2, 0, 0, CTP_GAP_MEMORY});
}

static inline void add_what_ran(struct profile_writer *w)
{
    const char *const arguments[] = {"prog", "-x", "two words"};
    struct ctp_process process = {.pid = 42,
                                  .parent = CTP_NONE,
                                  .command = profile_add_string(w, "/bin/prog"),
                                  .start_ns = 1000,
                                  .end_ns = 2000,
                                  .exit_kind = CTP_EXIT_STATUS,
                                  .exit_value = 3};
    profile_add_process(w, &process, 3, arguments);
    process.pid = 43;
    process.parent = 0;
    profile_add_process(w, &process, 1, arguments);
    profile_add_thread(w,
                       &(struct ctp_thread){0, 42, profile_add_string(w, "main"), CTP_NONE, 1, 2});
    profile_add_thread(w, &(struct ctp_thread){1, 44, profile_add_string(w, "helper"), 2, 1, 2});
    profile_add_epoch(w, "phase");
}

static inline void add_facts(struct profile_writer *w)
{
    profile_fact_u64(w, CTP_SCOPE_METRIC, 1, "samples", 17);
    profile_fact_i64(w, CTP_SCOPE_PROFILE, 0, "zulu", -5);
    profile_fact_f64(w, CTP_SCOPE_PROFILE, 0, "alpha", 2.5);
    profile_fact_string(w, CTP_SCOPE_PROCESS, 1, "machine", "x86");
    profile_fact_u64(w, CTP_SCOPE_THREAD, 1, "lost", 1);
    profile_fact_u64(w, CTP_SCOPE_MODULE, 0, "sites", 2);
}

static inline void add_metrics(struct profile_writer *w)
{
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "cpu"),
                                               .unit = profile_add_string(w, "ns"),
                                               .description = profile_add_string(w, "user time"),
                                               .kind = CTP_METRIC_SAMPLED,
                                               .period = 1000});
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "calls"),
                                               .unit = profile_add_string(w, "calls"),
                                               .kind = CTP_METRIC_EXACT});
}

/* Everything but the nodes, the roots and the commit. */
static inline struct profile_writer *begin_small(void)
{
    struct profile_writer *w = begin();
    add_metrics(w);
    profile_begin_nodes(w, 6);
    add_code(w);
    add_what_ran(w);
    add_facts(w);
    return w;
}

static inline void add_small_roots(struct profile_writer *w)
{
    profile_add_root(w, 0, 0);
    profile_add_root(w, 1, CTP_NONE);
}

static inline void commit(struct profile_writer *w)
{
    struct ct_error err = {""};
    int status = profile_writer_commit(w, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, CT_OK);
}

/*
 * Samples of metric 0: node 1 at 5 and 9 us and node 2 at 5 us, each worth 1, and node 2 at
 * 2^32 + 3 us, worth 2. Given in no order.
 */
static inline void add_small_times(struct profile_writer *w)
{
    profile_add_times(w, &(struct ctp_time_run){.metric = 0, .span = 1, .value = 2},
                      &(struct ctp_time){2, 3}, 1);
    profile_add_times(w, &(struct ctp_time_run){.metric = 0, .value = 1},
                      (struct ctp_time[]){{1, 9}, {2, 5}}, 2);
    profile_add_times(w, &(struct ctp_time_run){.metric = 0, .value = 1}, &(struct ctp_time){1, 5},
                      1);
}

static inline void write_small(void)
{
    struct profile_writer *w = begin_small();
    add_small_roots(w);
    profile_write_nodes(w, small_parents, small_frames, 6);
    profile_write_values(w, 0, small_values[0], 6);
    profile_write_values(w, 1, small_values[1], 6);
    add_small_times(w);
    commit(w);
}

/* The bytes of the file at `path`, in a block of exactly that size. */
static inline uint8_t *read_back(size_t *size)
{
    struct mapped_file file;
    struct ct_error err;
    assert_int_equal(file_map(path, &file, &err), CT_OK);
    uint8_t *bytes = must_realloc(NULL, file.size, 1);
    memcpy(bytes, file.bytes, file.size);
    *size = file.size;
    file_unmap(&file);
    return bytes;
}

static inline uint8_t *small_bytes(size_t *size)
{
    write_small();
    return read_back(size);
}

static inline uint32_t files_in_folder(void)
{
    uint32_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_profile.XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.ctp", folder);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if a temporary file was left behind */
}

/* Opens bytes that may hold anything, and touches what can be touched. Returns whether all is well.
 */
static inline bool survives(const void *bytes, size_t size)
{
    struct profile p;
    struct ct_error err;
    if (profile_from_bytes(bytes, size, "x", &p, &err) != CT_OK) {
        assert_null(strchr(err.text, '\n'));
        return false;
    }
    bool valid = profile_validate(&p, &err) == CT_OK;
    FILE *nowhere = fopen("/dev/null", "w");
    profile_print_text(&p, true, nowhere);
    profile_print_json(&p, nowhere);
    fclose(nowhere);
    for (uint32_t i = 0; i < p.node_count; i++) {
        uint32_t steps = 0;
        for (uint32_t at = i; at != CTP_NONE; at = profile_parent(&p, at))
            assert_true(steps++ <= i);
    }
    profile_close(&p);
    return valid;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

#endif
