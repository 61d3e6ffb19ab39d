/* The base: readers that stop at the end, strings kept once, JSON that parses, files all or none.
 */
#include "base/file.h"
#include "base/json.h"
#include "base/reader.h"
#include "base/strings.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void reader_gives_values_and_then_zeros(void **state)
{
    (void)state;
    const uint8_t bytes[] = {0x01, 0x02, 0x03, 0xff, 0x7f};
    struct reader r = reader_over(bytes, sizeof bytes);
    assert_int_equal(read_u16(&r), 0x0201);
    assert_int_equal(read_u8(&r), 3);
    assert_false(r.failed);
    assert_int_equal(read_u32(&r), 0); /* two bytes are left */
    assert_true(r.failed);
    assert_int_equal(read_u8(&r), 0); /* everything after a failure is zero */
}

static void leb128_numbers_are_those_of_the_dwarf_standard(void **state)
{
    (void)state;
    /* The examples of DWARF 5, section 7.6: 2, 127, 128, 12857; then 2, -2, 127, -127, 128, -129.
     */
    const uint8_t u[] = {2, 0x7f, 0x80, 1, 0xb9, 0x64};
    struct reader r = reader_over(u, sizeof u);
    assert_int_equal(read_uleb(&r), 2);
    assert_int_equal(read_uleb(&r), 127);
    assert_int_equal(read_uleb(&r), 128);
    assert_int_equal(read_uleb(&r), 12857);
    const uint8_t s[] = {2, 0x7e, 0xff, 0, 0x81, 0x7f, 0x80, 1, 0xff, 0x7e};
    r = reader_over(s, sizeof s);
    const int64_t expected[] = {2, -2, 127, -127, 128, -129};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(read_sleb(&r), expected[i]);
    assert_int_equal(reader_left(&r), 0);
    assert_false(r.failed);
}

static void an_endless_leb128_stops_at_the_end(void **state)
{
    (void)state;
    uint8_t bytes[100];
    memset(bytes, 0xff, sizeof bytes);
    struct reader r = reader_over(bytes, sizeof bytes);
    read_uleb(&r);
    assert_true(r.failed);
    r = reader_over(bytes, sizeof bytes);
    read_sleb(&r);
    assert_true(r.failed);
}

static void skipping_past_the_end_fails_even_with_huge_counts(void **state)
{
    (void)state;
    struct reader r = reader_over("abcd", 4);
    reader_skip(&r, UINT64_MAX);
    assert_true(r.failed);
}

static void the_pool_keeps_each_string_once(void **state)
{
    (void)state;
    struct string_pool pool;
    strings_init(&pool);
    assert_int_equal(strings_add(&pool, ""), 0);
    uint32_t offsets[5000];
    char text[32];
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "name%u", i);
        offsets[i] = strings_add(&pool, text);
    }
    size_t size = pool.bytes.count;
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "name%u", i);
        assert_int_equal(strings_add(&pool, text), offsets[i]);
        assert_string_equal(strings_get(&pool, offsets[i]), text);
    }
    assert_int_equal(pool.bytes.count, size);
    assert_string_equal(strings_get(&pool, UINT32_MAX), "");
    strings_free(&pool);
}

static void json_escapes_what_json_cannot_hold(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    struct json j = json_to(out);
    json_open(&j, NULL, '{');
    json_string(&j, "a", "quote\" back\\ tab\t bad\xff good\xc3\xa9");
    json_double(&j, "b", 1.0 / 0.0);
    json_open(&j, "c", '[');
    json_close(&j, ']');
    json_close(&j, '}');
    fclose(out);
    assert_string_equal(text,
                        "{\n  \"a\": \"quote\\\" back\\\\ tab\\u0009 bad\\u00ff good\xc3\xa9\",\n"
                        "  \"b\": null,\n  \"c\": []\n}\n");
    free(text);
}

static void nothing_is_left_of_a_new_file_whose_writer_was_killed(void **state)
{
    (void)state;
    char folder[] = "/tmp/calltrail-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    int nameless = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (nameless < 0) { /* a file system without */
        rmdir(folder);
        skip();
    }
    close(nameless);
    char *path = must_format("%s/file", folder);
    pid_t child = fork();
    if (child == 0) {
        struct new_file file;
        struct ct_error err;
        if (file_begin(path, &file, &err) == CT_OK && fputs("half", file.stream) >= 0 &&
            fflush(file.stream) == 0)
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(rmdir(folder), 0);
    free(path);
}

static void a_new_file_appears_only_when_it_is_committed(void **state)
{
    (void)state;
    char folder[] = "/tmp/calltrail-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *path = must_format("%s/file", folder);
    struct new_file file;
    struct ct_error err;
    assert_int_equal(file_begin(path, &file, &err), CT_OK);
    fputs("half", file.stream);
    assert_int_not_equal(access(path, F_OK), 0);
    file_abandon(&file);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(file_begin(path, &file, &err), CT_OK);
    fputs("whole", file.stream);
    assert_int_equal(file_commit(&file, &err), CT_OK);
    struct mapped_file mapped;
    assert_int_equal(file_map(path, &mapped, &err), CT_OK);
    assert_int_equal(mapped.size, 5);
    assert_memory_equal(mapped.bytes, "whole", 5);
    assert_int_equal(mapped.status.st_mode & 077, 0); /* no other user's business */
    file_unmap(&mapped);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* and no temporary file is left */
    free(path);
}

static void mapping_names_the_file_and_the_reason(void **state)
{
    (void)state;
    struct mapped_file mapped;
    struct ct_error err;
    assert_int_equal(file_map("/nonexistent/x", &mapped, &err), CT_ERROR);
    assert_string_equal(err.text, "/nonexistent/x: cannot be opened: No such file or directory");
    assert_int_equal(file_map("/", &mapped, &err), CT_ERROR);
    assert_string_equal(err.text, "/: is a directory, not a file");
    assert_int_equal(file_map("/dev/null", &mapped, &err), CT_ERROR);
    assert_string_equal(err.text, "/dev/null: is not a regular file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_gives_values_and_then_zeros),
        cmocka_unit_test(leb128_numbers_are_those_of_the_dwarf_standard),
        cmocka_unit_test(an_endless_leb128_stops_at_the_end),
        cmocka_unit_test(skipping_past_the_end_fails_even_with_huge_counts),
        cmocka_unit_test(the_pool_keeps_each_string_once),
        cmocka_unit_test(json_escapes_what_json_cannot_hold),
        cmocka_unit_test(nothing_is_left_of_a_new_file_whose_writer_was_killed),
        cmocka_unit_test(a_new_file_appears_only_when_it_is_committed),
        cmocka_unit_test(mapping_names_the_file_and_the_reason),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
