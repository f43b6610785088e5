/* test_predictor.c: measurements that replace predicted step times, and how much of a job is
 * left. */
#include "scheduler/predictor.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void measurement_replaces_prediction(void **state)
{
    struct step_time time = {.seconds = 1, .deviation = 0.5};
    double before = time.deviation;

    (void)state;
    step_time_observe(&time, 3, 30);
    assert_float_equal(time.seconds, 3, 0.05);
    assert_true(time.deviation < before / 5);
    assert_true(time.steps == 30);
    before = time.deviation;
    step_time_observe(&time, 3, 1000);
    assert_float_equal(time.seconds, 3, 0.01);
    assert_true(time.deviation <= before && time.deviation > 0);
    step_time_observe(&time, 0, 1000); /* not a measurement */
    step_time_observe(&time, 5, 0);
    assert_float_equal(time.seconds, 3, 0.01);
}

static void a_first_measurement_without_a_prediction(void **state)
{
    struct step_time time = {.seconds = INFINITY};

    (void)state;
    step_time_observe(&time, 0.25, 10);
    assert_true(time.seconds == 0.25);
    assert_true(time.deviation > 0.02);
}

static void what_is_left(void **state)
{
    (void)state;
    assert_true(steps_left(100, 0, 99, 0) == 1);
    assert_float_equal(steps_left(100, 0.3, 0, 0), 100, 1e-9);
    assert_float_equal(steps_left(100, 0.3, 50, 0), 50, 1);    /* hardly any run is shorter */
    assert_float_equal(steps_left(100, 0.3, 100, 0), 27, 0.5); /* the mean over the longer runs */
    assert_true(steps_left(100, 0.3, 200, 0) > 10);
    assert_true(steps_left(100, 0.3, 2e6, 0) > 2e4 && steps_left(100, 0.3, 2e6, 0) < 2e5);
    assert_true(steps_left(0, 0, 70, 0) == 70); /* unknown: as much again */
    assert_true(steps_left(0, 0, 0, 10) == 10);
}

static void what_is_left_may_be_off(void **state)
{
    (void)state;
    assert_true(steps_left_deviation(100, 0, 10) == 0);
    assert_true(steps_left_deviation(0, 0.3, 10) == 0);
    /* for a lognormal distribution: mean sqrt(exp(0.09) - 1) */
    assert_float_equal(steps_left_deviation(100, 0.3, 0), 30.69, 0.01);
    assert_true(steps_left_deviation(100, 0.3, 100) < 30);
    assert_true(steps_left_deviation(100, 0.3, 1e6) > 0);
}

static void table(void **state)
{
    struct predictor_row rows[4] = {{0}};
    struct predictor predictor = {rows, 4};

    (void)state;
    assert_null(predictor_find(&predictor, 1, 0, false));
    for (int type = 0; type < 4; type++)
        predictor_find(&predictor, 1, type, true)->time.seconds = type;
    for (int type = 0; type < 4; type++)
        assert_true(predictor_find(&predictor, 1, type, false)->time.seconds == type);
    assert_null(predictor_find(&predictor, 2, 0, true)); /* full */
    assert_null(predictor_find(&predictor, 2, 0, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measurement_replaces_prediction),
        cmocka_unit_test(a_first_measurement_without_a_prediction),
        cmocka_unit_test(what_is_left),
        cmocka_unit_test(what_is_left_may_be_off),
        cmocka_unit_test(table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
