/*
 * What counts as noise: against numbers worked out by hand, and against the promise of the budget.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/key_set.h"
#include "query/noise.h"

#include <math.h>

static void near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("%g is not %g", got, expected);
}

/* 150 and 225 samples: the difference is 75, its variance 375, and 2 * (0.02 * 187.5)^2 = 28.1 for
 * two runs of the same thing. */
static void scores(void **state)
{
    (void)state;
    struct measured a = {150, 5000, 1}, b = {225, 5000, 1};
    near(noise_amount_score(&a, &b), 75 / sqrt(375 + 28.125), 1e-9);
    near(noise_amount_score(&b, &a), -75 / sqrt(375 + 28.125), 1e-9);
    assert_true(noise_amount_score(&a, &a) == 0);
    /* In units of 10 with the period 10 it is the same number of samples. */
    struct measured c = {1500, 50000, 10}, d = {2250, 50000, 10};
    near(noise_amount_score(&c, &d), noise_amount_score(&a, &b), 1e-9);
    near(noise_share_score(&c, &d), noise_share_score(&a, &b), 1e-9);
    near(noise_error(&c, &d, 0), 10 * noise_error(&a, &b, 0), 1e-9);
    /* The same part of a run that is twice as long is no change of the part. */
    struct measured e = {300, 10000, 1};
    near(noise_share_score(&a, &e), 0, 1e-9);
    assert_true(noise_amount_score(&a, &e) > 5);
}

static void exact_values_have_no_noise(void **state)
{
    (void)state;
    struct measured a = {1000000, 2000000, 0}, b = {1000001, 2000000, 0};
    assert_true(isinf(noise_amount_score(&a, &b)));
    assert_true(noise_amount_score(&a, &a) == 0);
    assert_true(noise_error(&a, &b, 0) == 0);
    struct noise_limits limits = {.price = 3, .small = 4};
    assert_true(noise_threshold(&limits, noise_effect(&a, &b)) == 0);
}

/* The chances of all thresholds together are the budget, however many there are of which size. */
static void budget_is_kept(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= 4096; count *= 4) {
        double *effects = must_calloc(count, sizeof *effects), sum = 0;
        for (uint32_t i = 0; i < count; i++)
            effects[i] = 0.5 + 7.0 * ((i * 37) % 100) / 100;
        struct noise_limits limits = noise_limits(effects, count, 0.05);
        for (uint32_t i = 0; i < count; i++)
            sum += erfc(noise_threshold(&limits, effects[i]) / sqrt(2));
        assert_true(sum <= 0.05 + 1e-9);
        assert_true(count < 100 || sum > 0.04);
        free(effects);
    }
}

static void key_sets_number_keys(void **state)
{
    (void)state;
    struct key_set set;
    key_set_init(&set, sizeof(uint64_t));
    uint32_t number;
    uint64_t none = 7;
    assert_false(key_set_find(&set, &none, &number));
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 5000; i++) {
            uint64_t key = i * UINT64_C(0x9e3779b97f4a7c15);
            assert_int_equal(key_set_add(&set, &key), i);
            assert_true(key_set_find(&set, &key, &number) && number == i);
        }
    assert_int_equal(set.count, 5000);
    assert_false(key_set_find(&set, &none, &number));
    key_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),
        cmocka_unit_test(exact_values_have_no_noise),
        cmocka_unit_test(budget_is_kept),
        cmocka_unit_test(key_sets_number_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
