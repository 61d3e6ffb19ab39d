/*
 * Merging, where files made by generators do not reach: threads of one name in one profile.
 */
#include "profile/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static char path[96];

/*
 * A main thread that has `extra` nodes and then one that creates the workers, which have the same
 * name. The creator's number in the profile depends on the extra ones.
 */
static void write_profile(uint32_t extra, uint32_t workers)
{
    struct profile_writer *w;
    assert_int_equal(profile_writer_open(path, &w, NULL), CT_OK);
    profile_add_metric(w, &(struct ctp_metric){.name = profile_add_string(w, "cpu"),
                                               .unit = profile_add_string(w, "ns"),
                                               .kind = CTP_METRIC_EXACT});
    for (uint32_t i = 0; i <= extra; i++)
        profile_add_frame(w, &(struct ctp_frame){.offset = i < extra ? 100 + i : 1,
                                                 .module = CTP_NONE,
                                                 .function = CTP_NONE});
    profile_add_process(
        w, &(struct ctp_process){.parent = CTP_NONE, .command = profile_add_string(w, "/bin/p")}, 0,
        NULL);
    profile_add_thread(
        w, &(struct ctp_thread){.name = profile_add_string(w, "main"), .creator = CTP_NONE});
    for (uint32_t i = 0; i < workers; i++)
        profile_add_thread(w, &(struct ctp_thread){.name = profile_add_string(w, "worker"),
                                                   .tid = 1 + i,
                                                   .creator = extra + 1});
    profile_begin_nodes(w, extra + 2);
    profile_add_root(w, 0, CTP_NONE);
    uint32_t none = CTP_NONE, root = 0;
    profile_write_nodes(w, &none, &none, 1);
    for (uint32_t i = 0; i <= extra; i++)
        profile_write_nodes(w, &root, &i, 1);
    assert_int_equal(profile_writer_commit(w, NULL), CT_OK);
}

static void add(struct merge *merge, uint32_t extra, uint32_t workers)
{
    struct profile p;
    write_profile(extra, workers);
    assert_int_equal(profile_open(path, &p, NULL), CT_OK);
    assert_int_equal(profile_validate(&p, NULL), CT_OK);
    assert_int_equal(merge_add(merge, &p, NULL), CT_OK);
    profile_close(&p);
}

/* The offset of the frame that created the workers. */
static uint64_t merged_creator(const uint32_t extra[2], const uint32_t workers[2])
{
    struct profile p;
    struct merge *merge = merge_begin(&(struct merge_options){0});
    for (int i = 0; i < 2; i++)
        add(merge, extra[i], workers[i]);
    assert_int_equal(merge_write(merge, path, NULL), CT_OK);
    merge_free(merge);
    assert_int_equal(profile_open(path, &p, NULL), CT_OK);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < profile_thread_count(&p); i++) {
        const struct ctp_thread *t = profile_thread(&p, i);
        if (strcmp(profile_string(&p, t->name), "worker") == 0 && t->creator != CTP_NONE)
            offset = profile_frame(&p, profile_node_frame(&p, t->creator))->offset;
    }
    profile_close(&p);
    return offset;
}

/* All agree on who created the workers: whichever file comes first, and whatever its numbers. */
static void creators_do_not_depend_on_the_order(void **state)
{
    (void)state;
    static const uint32_t extra[][2] = {{0, 3}, {3, 0}};
    static const uint32_t workers[][2] = {{2, 2}, {0, 2}, {2, 0}, {1, 2}};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 4; k++)
            assert_int_equal(merged_creator(extra[i], workers[k]), 1);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/test_merge-XXXXXX");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(creators_do_not_depend_on_the_order)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
