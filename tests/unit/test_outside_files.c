/* Files of mappings: by their inode, never by their path alone. */
#include "record/outside/outside_files.h"
#include "record/outside/outside_process.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
    char folder[64];
    char *program, *other;
    struct open_maps maps;
    struct outside_files files;
};

static void copy_file(const char *from, const char *to)
{
    char command[512];
    snprintf(command, sizeof command, "cp %s %s", from, to);
    assert_int_equal(system(command), 0);
}

static int begin(void **state)
{
    struct place *p = must_calloc(1, sizeof *p);
    strcpy(p->folder, "/tmp/outside-files-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    setenv("XDG_CACHE_HOME", p->folder, 1);
    p->program = must_format("%s/program", p->folder);
    p->other = must_format("%s/other", p->folder);
    copy_file("/bin/true", p->program);
    copy_file("/bin/false", p->other);
    open_maps_begin(&p->maps);
    p->files.maps = &p->maps;
    *state = p;
    return 0;
}

static int end(void **state)
{
    struct place *p = *state;
    char command[128];
    outside_files_end(&p->files);
    open_maps_end(&p->maps);
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    assert_int_equal(system(command), 0);
    free(p->program);
    free(p->other);
    free(p);
    return 0;
}

/* As if a process that is gone had had it mapped. */
enum { NO_PROCESS = 0x7ffffffe };

static struct outside_mapping mapping_of(const char *file, const char *path)
{
    struct stat s;
    assert_int_equal(stat(file, &s), 0);
    return (struct outside_mapping){.start = 0x400000,
                                    .bytes = 0x1000,
                                    .major = major(s.st_dev),
                                    .minor = minor(s.st_dev),
                                    .inode = s.st_ino,
                                    .path = path};
}

static void test_same_file(void **state)
{
    struct place *p = *state;
    struct outside_mapping m = mapping_of(p->program, p->program);
    const struct outside_file *f = outside_file_of(&p->files, NO_PROCESS, &m);
    assert_non_null(f);
    assert_non_null(f->map);
    assert_ptr_equal(outside_file_of(&p->files, NO_PROCESS, &m), f);
}

/* The path leads to another file than the one that was mapped. */
static void test_other_file(void **state)
{
    struct place *p = *state;
    struct outside_mapping m = mapping_of(p->program, p->other);
    assert_null(outside_file_of(&p->files, NO_PROCESS, &m));
}

/* What was opened is kept, whatever its path leads to later. */
static void test_replaced_file(void **state)
{
    struct place *p = *state;
    struct outside_mapping m = mapping_of(p->program, p->program);
    const struct outside_file *first = outside_file_of(&p->files, NO_PROCESS, &m);
    assert_int_equal(rename(p->other, p->program), 0);
    assert_ptr_equal(outside_file_of(&p->files, NO_PROCESS, &m), first);
    struct outside_mapping replaced = mapping_of(p->program, p->program);
    const struct outside_file *second = outside_file_of(&p->files, NO_PROCESS, &replaced);
    assert_non_null(second);
    assert_ptr_not_equal(second, first);
}

/* A module that cannot be had has no names; one at its place later is another. */
static void test_modules(void **state)
{
    struct place *p = *state;
    struct outside_process *process = outside_process_new(NO_PROCESS, 0, 0);
    struct outside_mapping lost = mapping_of(p->program, p->other);
    outside_process_map(process, &p->files, &lost);
    assert_int_equal(process->walked.count, 1);
    assert_null(process->walked.items[0].tables);
    struct outside_mapping anonymous = {.start = 0x400800, .bytes = 0x1000, .path = "//anon"};
    outside_process_map(process, &p->files, &anonymous);
    assert_int_equal(process->walked.count, 0);
    outside_process_free(process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_file, begin, end),
        cmocka_unit_test_setup_teardown(test_other_file, begin, end),
        cmocka_unit_test_setup_teardown(test_replaced_file, begin, end),
        cmocka_unit_test_setup_teardown(test_modules, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
