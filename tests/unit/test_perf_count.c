/* What several processors counted of an event, and samples scaled to it, worked out by hand. */
#include "record/perf_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void a_thread_that_moves_between_processors_is_counted_once(void **state)
{
    (void)state;
    const struct perf_count each[] = {{600, 10, 4}, {900, 10, 6}};
    struct perf_count sum = perf_count_sum(each, 2, true);
    assert_int_equal(sum.count, 1500);
    assert_int_equal(sum.enabled_ns, 10);
    assert_int_equal(sum.running_ns, 10);
}

static void counters_that_took_turns_are_scaled(void **state)
{
    (void)state;
    const struct perf_count each[] = {{600, 10, 2}, {400, 9, 3}}; /* 5 of 10: half of the time */
    assert_int_equal(perf_count_sum(each, 2, true).count, 2000);
    const struct perf_count third = {7, 3, 1};
    assert_int_equal(perf_count_sum(&third, 1, true).count, 21);
    const struct perf_count uneven = {10, 7, 3}; /* 23.3 */
    assert_int_equal(perf_count_sum(&uneven, 1, true).count, 23);
}

static void software_events_are_not(void **state)
{
    (void)state;
    const struct perf_count each[] = {{600, 10, 2}, {400, 9, 3}};
    assert_int_equal(perf_count_sum(each, 2, false).count, 1000);
}

static void an_event_that_never_ran_is_not_divided_by_nothing(void **state)
{
    (void)state;
    const struct perf_count never = {0, 1000, 0};
    assert_int_equal(perf_count_sum(&never, 1, true).count, 0);
    assert_int_equal(perf_count_sum(NULL, 0, true).count, 0);
}

static void large_numbers_stay_exact(void **state)
{
    (void)state;
    /* A week of 5 GHz, a quarter of it counted: beyond what a double can hold. */
    const struct perf_count week = {UINT64_C(756000000000001), UINT64_C(604800000000000),
                                    UINT64_C(151200000000000)};
    assert_int_equal(perf_count_sum(&week, 1, true).count, UINT64_C(3024000000000004));
}

static void parts_are_rounded_so_that_none_is_lost(void **state)
{
    (void)state;
    /* 10 in 7 parts: the sums are 1.43, 2.86, 4.29, 5.71, 7.14, 8.57, 10. */
    static const uint64_t parts[] = {1, 1, 2, 1, 2, 1, 2};
    struct perf_scale more = {.to = 10, .of = 7};
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(perf_scale_next(&more, 1), parts[i]);
    struct perf_scale less = {.to = 3, .of = 4}; /* 0.75, 2.25, 2.25, 3 */
    assert_int_equal(perf_scale_next(&less, 1), 0);
    assert_int_equal(perf_scale_next(&less, 2), 2);
    assert_int_equal(perf_scale_next(&less, 0), 0);
    assert_int_equal(perf_scale_next(&less, 1), 1);
    struct perf_scale same = {.to = 5, .of = 5};
    assert_int_equal(perf_scale_next(&same, 2), 2);
    assert_int_equal(perf_scale_next(&same, 3), 3);
    struct perf_scale nothing = {.to = 0, .of = 5};
    assert_int_equal(perf_scale_next(&nothing, 5), 0);
}

static void large_sums_are_scaled_exactly(void **state)
{
    (void)state;
    const uint64_t week = UINT64_C(3024000000000004);
    struct perf_scale scale = {.to = week, .of = week / 2 + 1};
    assert_int_equal(perf_scale_next(&scale, 1), 1); /* 1.999… */
    assert_int_equal(perf_scale_next(&scale, week / 2), week - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_moves_between_processors_is_counted_once),
        cmocka_unit_test(counters_that_took_turns_are_scaled),
        cmocka_unit_test(software_events_are_not),
        cmocka_unit_test(an_event_that_never_ran_is_not_divided_by_nothing),
        cmocka_unit_test(large_numbers_stay_exact),
        cmocka_unit_test(parts_are_rounded_so_that_none_is_lost),
        cmocka_unit_test(large_sums_are_scaled_exactly),
    };
    return cmocka_run_group_tests_name("perf_count", tests, NULL, NULL);
}
