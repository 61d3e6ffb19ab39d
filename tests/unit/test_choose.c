/*
 * Names as people type them: the parts of a name, which names answer to what was typed, and which
 * functions of a profile are meant by it; and which package would bring names that are missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "names/package.h"
#include "query/choose.h"
#include "query/name_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void names_have_parts(void **state)
{
    (void)state;
    static const struct {
        const char *name, *from_start, *from_base, *from_parameters;
    } cases[] = {
        {"main", "main", "main", ""},
        {"run(int)", "run(int)", "run(int)", "(int)"},
        {"void std::sort<It, bool (*)(A, B)>(It, It)", "std::sort<It, bool (*)(A, B)>(It, It)",
         "sort<It, bool (*)(A, B)>(It, It)", "(It, It)"},
        {"unsigned long f<int>(int)", "f<int>(int)", "f<int>(int)", "(int)"},
        {"(anonymous namespace)::run(int)", "(anonymous namespace)::run(int)", "run(int)", "(int)"},
        {"a::B::operator()(int) const", "a::B::operator()(int) const", "B::operator()(int) const",
         "(int) const"},
        {"bool a::operator< <char>(S const&)", "a::operator< <char>(S const&)",
         "a::operator< <char>(S const&)", "(S const&)"},
        {"operator new(unsigned long)", "operator new(unsigned long)",
         "operator new(unsigned long)", "(unsigned long)"},
        {"a::B::operator std::string() const", "a::B::operator std::string() const",
         "B::operator std::string() const", "() const"},
        {"run(int)::{lambda(int)#1}::operator()(int) const",
         "run(int)::{lambda(int)#1}::operator()(int) const",
         "{lambda(int)#1}::operator()(int) const", "(int) const"},
        {"<alloc::Vec<T> as core::Drop>::drop", "<alloc::Vec<T> as core::Drop>::drop", "drop", ""},
        {"main.(*Tree).Insert", "main.(*Tree).Insert", "main.(*Tree).Insert", ""},
        {"Function: a name with spaces", "Function: a name with spaces",
         "Function: a name with spaces", ""},
        {"f(int) [clone .isra.0]", "f(int) [clone .isra.0]", "f(int) [clone .isra.0]",
         "(int) [clone .isra.0]"},
        {"never<closed(", "never<closed(", "never<closed(", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = cases[i].name;
        struct name_parts parts = name_parts(name);
        assert_string_equal(name + parts.start, cases[i].from_start);
        assert_string_equal(name + parts.base, cases[i].from_base);
        assert_string_equal(name + parts.parameters, cases[i].from_parameters);
    }
}

static void names_answer_to_what_is_typed(void **state)
{
    (void)state;
    static const char map[] = "std::map<std::string, V, std::less<void> >::operator[](K const&)";
    static const struct {
        const char *name, *typed;
        enum name_match match;
    } cases[] = {
        {"run_job", "run_job", NAME_SAME},
        {"work::run_job(Job const&)", "work::run_job", NAME_SHOWN},
        {"work::run_job(Job const&)", "work::run_job()", NAME_SHOWN},
        {"work::run_job(Job const&)", "run_job", NAME_BASE},
        {"work::run_job(Job const&)", "run_job()", NAME_BASE},
        {"work::run_job(Job const&)", "run_job(Job const&)", NAME_BASE},
        {"work::run_job(Job const&)", "run_job(int)", NAME_OTHER},
        {"work::run_job(Job const&)", "job", NAME_OTHER},
        {"void std::sort<It>(It, It)", "std::sort<It>(It, It)", NAME_SHOWN},
        {"void std::sort<It>(It, It)", "std::sort<…>(…)", NAME_SHOWN},
        {"void std::sort<It>(It, It)", "std::sort<...>", NAME_SHOWN},
        {"void std::sort<It>(It, It)", "std::sort", NAME_SHOWN},
        {"void std::sort<It>(It, It)", "sort", NAME_BASE},
        {"void std::__sort<It>(It, It)", "sort", NAME_OTHER},
        {map, "std::map<…>::operator[](…)", NAME_SHOWN},
        {map, "map<...>::operator[]", NAME_BASE},
        {map, "std::map::operator[]", NAME_SHOWN},
        {map, "std::set<…>::operator[](…)", NAME_OTHER},
        {"a_very_long_name_of_a_function", "a_very…function", NAME_SHOWN},
        {"a_very_long_name_of_a_function", "a_very...funktion", NAME_OTHER},
        {"run_job.part.0", "run_job", NAME_SHOWN},
        {"work::run_job(int) [clone .cold]", "run_job", NAME_BASE},
        {"memcpy@plt", "memcpy", NAME_SHOWN},
        {"github.com/user/tool/pkg.(*Tree).Insert", "Insert", NAME_BASE},
        {"github.com/user/tool/pkg.(*Tree).Insert", "pkg.(*Tree).Insert", NAME_BASE},
        {"core::ptr::drop_in_place<alloc::String>", "drop_in_place", NAME_BASE},
        {"a::B::operator()(int) const", "a::B::operator()", NAME_SHOWN},
        {"a::B::operator()(int) const", "a::B::operator", NAME_OTHER},
        {"main", "", NAME_OTHER},
        {"", "main", NAME_OTHER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (name_match(cases[i].name, cases[i].typed) != cases[i].match)
            fail_msg("'%s' typed for '%s': %d, not %d", cases[i].typed, cases[i].name,
                     (int)name_match(cases[i].name, cases[i].typed), (int)cases[i].match);
}

/* Names from files can be anything: what matters is that it ends, soon. */
static void strange_names_end(void **state)
{
    (void)state;
    enum { LENGTH = 200000 };
    static const char *const units[] = {"(", "<", "a<(", "::", "operator", "operator(", "…", " "};
    char *name = malloc(LENGTH + 16);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t length = strlen(units[i]), used = 0;
        for (; used + length < LENGTH; used += length)
            memcpy(name + used, units[i], length);
        name[used] = '\0';
        struct name_parts parts = name_parts(name);
        assert_true(parts.start <= used && parts.base <= used && parts.parameters <= used);
        assert_int_equal(name_match(name, "main"), NAME_OTHER);
        assert_int_equal(name_match("main", name), i == 6 ? NAME_SHOWN : NAME_OTHER);
    }
    free(name);
}

static void write_list(const char *folder, const char *name, const char *lines)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(lines, file);
    assert_int_equal(fclose(file), 0);
}

/* Which package has a file, by lists as dpkg has them. */
static void packages_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *path, *package;
    } cases[] = {
        {"/usr/bin/tool", "tool"},       {"/usr/lib/libtool.so.1", "libtool1"},
        {"/usr/lib/libold.so.2", "old"}, /* listed below /lib, which is a link today */
        {"/usr/lib/libtool.so", NULL},   {"/lib/libtool.so.1", NULL},
        {"/usr/bin/other", NULL},        {"/last", "tool"},
    };
    char folder[] = "/tmp/test_choose.XXXXXX", path[128];
    static const char *const lists[] = {"tool.list", "libtool1:amd64.list", "old.list",
                                        "empty.list", "other.md5sums"};
    assert_non_null(mkdtemp(folder));
    write_list(folder, lists[0], "/.\n/usr\n/usr/bin/tool\n/last");
    write_list(folder, lists[1], "/usr/lib/libtool.so.1.2\n/usr/lib/libtool.so.1\n");
    write_list(folder, lists[2], "/lib/libold.so.2\n");
    write_list(folder, lists[3], "");
    write_list(folder, lists[4], "/usr/bin/other\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *package = package_of(folder, cases[i].path);
        if (cases[i].package)
            assert_string_equal(package ? package : "(none)", cases[i].package);
        else
            assert_null(package);
        free(package);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, lists[i]);
        unlink(path);
    }
    rmdir(folder);
    assert_null(package_of(folder, "/usr/bin/tool"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_have_parts),
        cmocka_unit_test(names_answer_to_what_is_typed),
        cmocka_unit_test(strange_names_end),
        cmocka_unit_test(packages_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
