/* test_recipe_comparison.c: when one way to train is better than another. */
#include "worker/trainee/recipe_comparison.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-12))
        fail_msg("%.15g is not %.15g", value, expected);
}

/* Folds are compared one by one: they differ more from each other than ways do. */
static void test_pairs(void **state)
{
    const struct recipe_scores plain = {.score = {0.5, 0.9, 0.1, 0.7, 0.3}, .count = 5};
    const struct recipe_scores way = {.score = {0.52, 0.91, 0.13, 0.72, 0.32}, .count = 5};
    const struct recipe_difference difference = recipe_compare(&way, &plain);

    (void)state;
    assert_near(difference.mean, 0.02);
    assert_near(difference.error, sqrt(2e-4 / 4 / 5)); /* 0.01 above and below in two of five */
    assert_int_equal(difference.count, 5);
    assert_true(recipe_is_better(&difference));
    assert_false(recipe_is_open(&difference));
    assert_near(recipe_mean(&plain), 0.5);
}

/* A difference within one standard error leaves the plain way in its place. */
static void test_noise(void **state)
{
    const struct recipe_scores plain = {.score = {0.5, 0.5, 0.5, 0.5, 0.5}, .count = 5};
    const struct recipe_scores way = {.score = {0.6, 0.4, 0.6, 0.4, 0.52}, .count = 5};
    const struct recipe_difference difference = recipe_compare(&way, &plain);
    const struct recipe_difference same = recipe_compare(&plain, &plain);
    const struct recipe_difference between = {.mean = 0.015, .error = 0.01, .count = 5};

    (void)state;
    assert_near(difference.mean, 0.004);
    assert_false(recipe_is_better(&difference));
    assert_true(recipe_is_open(&difference));
    assert_false(recipe_is_better(&same));
    assert_true(recipe_is_open(&same));
    assert_true(recipe_is_better(&between)); /* further folds may tell otherwise */
    assert_true(recipe_is_open(&between));
}

/* Only folds that both have are compared, and those without a score are left out. */
static void test_missing(void **state)
{
    const struct recipe_scores plain = {.score = {0.5, NAN, 0.5, 0.9}, .count = 4};
    const struct recipe_scores way = {.score = {0.6, 0.7, 0.8}, .count = 3};
    const struct recipe_scores one = {.score = {0.6}, .count = 1};
    const struct recipe_scores none = {.score = {NAN, NAN}, .count = 2};
    struct recipe_difference difference = recipe_compare(&way, &plain);

    (void)state;
    assert_int_equal(difference.count, 2);
    assert_near(difference.mean, 0.2);
    assert_near(difference.error, 0.1);
    difference = recipe_compare(&one, &plain);
    assert_false(recipe_is_better(&difference));
    assert_true(recipe_is_open(&difference));
    difference = recipe_compare(&none, &plain);
    assert_int_equal(difference.count, 0);
    assert_false(recipe_is_better(&difference));
    assert_true(isnan(recipe_mean(&none)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
