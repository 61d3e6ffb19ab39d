/* The table of engines: whole rows, and all of them where a user looks for options. */
#include "cli/engine_options.h"
#include "record/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {
#define NAME(name) #name,
    ENGINE_LIST(NAME)};

/* What a function prints; to be freed. */
static char *printed(void (*print)(void))
{
    enum { MOST = 1 << 16 };
    char *text = must_calloc(1, MOST);
    FILE *before = stdout, *file = tmpfile();
    assert_non_null(file);
    stdout = file;
    print();
    stdout = before;
    rewind(file);
    assert_in_range(fread(text, 1, MOST - 1, file), 1, MOST - 2);
    fclose(file);
    return text;
}

static void an_engine_is_found_by_number_and_name(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINE_COUNT; i++) {
        const struct record_engine *e = record_engine_at(i);
        assert_int_equal(e->number, i);
        assert_string_equal(e->name, names[i]);
        assert_ptr_equal(record_engine_named(names[i]), e);
    }
    assert_null(record_engine_at(ENGINE_COUNT));
    assert_null(record_engine_named("nonsense"));
}

static void an_engine_has_words_for_its_users(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < ENGINE_COUNT; i++) {
        const struct record_engine *e = record_engine_at(i);
        assert_true(*e->help && *e->man);
        assert_int_equal(e->man[strlen(e->man) - 1], '\n');
        for (const struct engine_option *o = e->options; o && o->name; o++) {
            assert_true(o->take && *o->help && *o->man);
            assert_int_equal(o->man[strlen(o->man) - 1], '\n');
            assert_int_equal(strspn(o->name, "abcdefghijklmnopqrstuvwxyz-"), strlen(o->name));
            assert_true(o->argument || !o->otherwise);
            assert_ptr_equal(record_engine_option(e, o->name), o); /* once */
        }
    }
}

static void help_and_manual_have_every_row(void **state)
{
    (void)state;
    char *help = printed(engine_options_help), *man = printed(engine_options_man),
         *synopsis = printed(engine_options_synopsis), wanted[200];
    for (uint32_t i = 0; i < ENGINE_COUNT; i++) {
        const struct record_engine *e = record_engine_at(i);
        for (const struct engine_option *o = e->options; o && o->name; o++) {
            snprintf(wanted, sizeof wanted, "with %s: %.*s", e->name, (int)strcspn(o->help, "\n"),
                     o->help);
            bool is_there = false; /* in a line of that option; two engines may have one */
            for (const char *text = help; !is_there && (text = strstr(text, wanted)); text++) {
                const char *row = text;
                while (row > help && row[-1] != '\n')
                    row--;
                row += strspn(row, " ");
                if (o->letter && row[0] == '-' && row[1] == o->letter) /* -m, --metric */
                    row += strlen("-m, ");
                is_there =
                    strncmp(row, "--", 2) == 0 && strncmp(row + 2, o->name, strlen(o->name)) == 0;
            }
            assert_true(is_there);
            char letter[] = "Fl m , ";
            letter[3] = o->letter;
            letter[0] = o->letter ? 'F' : '\0';
            snprintf(wanted, sizeof wanted, ".Op %sFl -%s", letter, o->name);
            assert_non_null(strstr(synopsis, wanted));
            snprintf(wanted, sizeof wanted, ".It %sFl -%s", letter, o->name);
            assert_non_null(strstr(man, wanted));
            assert_non_null(strstr(man, o->man));
        }
    }
    free(help);
    free(man);
    free(synopsis);
}

/* Does an engine before that one have an option of the name? */
static bool is_shared(uint32_t engine, const char *name)
{
    for (uint32_t i = 0; i < engine; i++)
        if (record_engine_option(record_engine_at(i), name))
            return true;
    return false;
}

static void getopt_has_every_name_once(void **state)
{
    (void)state;
    static const struct option own[] = {{"own", no_argument, NULL, 'o'}, {0}};
    struct option *all = engine_options_with(own);
    size_t count = 0, rows = 0;
    assert_string_equal(all[0].name, "own");
    for (const struct option *a = all + 1; a->name; a++, count++)
        assert_int_equal(a->val, ENGINE_OPTION);
    for (uint32_t i = 0; i < ENGINE_COUNT; i++) {
        for (const struct engine_option *o = record_engine_at(i)->options; o && o->name; o++) {
            const struct option *a = all;
            while (a->name && strcmp(a->name, o->name) != 0)
                a++;
            assert_non_null(a->name);
            assert_int_equal(a->has_arg, o->otherwise  ? optional_argument
                                         : o->argument ? required_argument
                                                       : no_argument);
            rows += !is_shared(i, o->name);
        }
    }
    assert_int_equal(count, rows);
    free(all);
}

/* Options are taken by the engine that is meant, whatever comes first. */
static void an_option_of_another_engine_is_refused(void **state)
{
    (void)state;
    struct given_options given = {0};
    struct ct_error err;
    void *options;
    vec_push(&given.items, (struct given_option){"no-trampoline", NULL});
    assert_int_equal(engine_options_take(&given, record_engine_named("sample"), &options, &err),
                     CT_OK);
    free(options);
    assert_int_equal(engine_options_take(&given, record_engine_named("exact"), &options, &err),
                     CT_ERROR);
    assert_string_equal(err.text, "--no-trampoline requires --engine sample");
    free(options);
    vec_free(&given.items);
}

static void an_argument_that_is_left_out_is_the_usual_one(void **state)
{
    (void)state;
    const struct record_engine *exact = record_engine_named("exact");
    struct given_options given = {0};
    struct ct_error err;
    void *options;
    vec_push(&given.items, (struct given_option){"burst", NULL});
    assert_int_equal(engine_options_take(&given, exact, &options, &err), CT_OK);
    assert_int_equal(exact->tick_ns(options), 2000000);
    free(options);
    vec_push(&given.items, (struct given_option){"burst", "1/50"});
    assert_int_equal(engine_options_take(&given, exact, &options, &err), CT_OK);
    assert_int_equal(exact->tick_ns(options), 50000000);
    free(options);
    vec_free(&given.items);
}

static void an_engine_that_is_not_there_is_refused(void **state)
{
    (void)state;
    const struct record_engine *found;
    struct ct_error err;
    assert_int_equal(engine_find("exact", &found, &err), CT_OK);
    assert_string_equal(found->name, "exact");
    assert_int_equal(engine_find("nonsense", &found, &err), CT_ERROR);
    for (uint32_t i = 0; i < ENGINE_COUNT; i++)
        assert_non_null(strstr(err.text, names[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_is_found_by_number_and_name),
        cmocka_unit_test(an_engine_has_words_for_its_users),
        cmocka_unit_test(help_and_manual_have_every_row),
        cmocka_unit_test(getopt_has_every_name_once),
        cmocka_unit_test(an_option_of_another_engine_is_refused),
        cmocka_unit_test(an_argument_that_is_left_out_is_the_usual_one),
        cmocka_unit_test(an_engine_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
