/* Files of mappings: by their inode, never by their path alone. */
#include "record/outside/outside_files.h"
#include "record/outside/outside_walk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* Another file under the same path, with the same number, as file systems give it again. */
static void test_reused_number(void **state)
{
    struct place *p = *state;
    struct outside_mapping m = mapping_of(p->program, p->program);
    long version = 0;
    int fd = open(p->program, O_RDONLY);
    bool has_versions = ioctl(fd, FS_IOC_GETVERSION, &version) == 0;
    close(fd);
    if (!has_versions)
        skip(); /* such a file system uses no number again */
    m.has_generation = true;
    m.generation = (uint32_t)version + 1;
    assert_null(outside_file_of(&p->files, NO_PROCESS, &m));
    m.generation = (uint32_t)version;
    assert_non_null(outside_file_of(&p->files, NO_PROCESS, &m));
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

/* --- what a walk may read ----------------------------------------------------------------------
 */

static uint64_t made[64];  /* as if a compiler had made it */
static uint64_t stack[64]; /* as it is now, not as it was at the sample */

/* Frames of a walk from `made`, whose caller is found by rbp, with so much of the stack. */
static uint32_t frames_found(struct outside_process *process, uint64_t window_bytes)
{
    static struct outside_walked walked;
    uint64_t pc = (uint64_t)(uintptr_t)&made[32], sp = (uint64_t)(uintptr_t)stack;
    uint64_t registers[OUTSIDE_REGISTERS] = {[6] = sp + 64, [7] = sp, [8] = pc};
    ((uint8_t *)made)[11] = 0xe8; /* a call, and what is behind it */
    stack[8] = 0;
    stack[9] = (uint64_t)(uintptr_t)made + 16;
    outside_walk(process,
                 &(struct outside_sample){.abi = OUTSIDE_ABI_64,
                                          .registers = registers,
                                          .stack = (const char *)stack,
                                          .stack_bytes = window_bytes,
                                          .window_bytes = window_bytes + 8},
                 false, &walked);
    return walked.count;
}

/* The stack is what came with the sample, and code is what was mapped as such; nothing else. */
static void test_memory(void **state)
{
    struct place *p = *state;
    struct outside_process *process = outside_process_new((uint32_t)getpid(), 0, 0);
    assert_int_equal(frames_found(process, sizeof stack), 1); /* no code that is known */
    struct outside_mapping code = {
        .start = (uint64_t)(uintptr_t)made, .bytes = sizeof made, .path = "//anon"};
    outside_process_map(process, &p->files, &code);
    assert_true(outside_process_has_made(process, code.start));
    assert_false(outside_process_has_made(process, (uint64_t)(uintptr_t)stack));
    assert_int_equal(frames_found(process, sizeof stack), 2);
    assert_int_equal(frames_found(process, 24), 1); /* its stack would have to be read now */
    struct outside_mapping file = mapping_of(p->program, p->program);
    file.start = code.start;
    outside_process_map(process, &p->files, &file);
    assert_false(outside_process_has_made(process, code.start));
    outside_process_free(process);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_file, begin, end),
        cmocka_unit_test_setup_teardown(test_other_file, begin, end),
        cmocka_unit_test_setup_teardown(test_reused_number, begin, end),
        cmocka_unit_test_setup_teardown(test_replaced_file, begin, end),
        cmocka_unit_test_setup_teardown(test_modules, begin, end),
        cmocka_unit_test_setup_teardown(test_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
