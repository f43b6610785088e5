/* test_schedule: learning-rate schedules against the values that PyTorch documents for its
 * schedulers, and the tracker of the best metric. */
#include "engine/train/schedule.h"
#include "engine/train/tracker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-12 * fabs(expected) + 1e-15)
        fail_msg("%.17g instead of %.17g", value, expected);
}

static void test_constant_with_warmup(void **state)
{
    struct schedule_config config = {SCHEDULE_CONSTANT, .learning_rate = 0.5, .warmup_steps = 5};

    (void)state;
    assert_near(schedule_learning_rate(&config, 1), 0.1);
    assert_near(schedule_learning_rate(&config, 4), 0.4);
    assert_near(schedule_learning_rate(&config, 5), 0.5);
    assert_near(schedule_learning_rate(&config, 1000000), 0.5);
}

static void test_cosine(void **state)
{
    /* torch.optim.lr_scheduler.CosineAnnealingLR(SGD(lr=0.1), T_max=10, eta_min=0.01) */
    static const double torch[] = {
        0.1,  0.09779754323328190, 0.09140576474687263, 0.08145033635316129, 0.06890576474687264,
        0.055};
    struct schedule_config config = {SCHEDULE_COSINE, .learning_rate = 0.1, .minimum = 0.01,
                                     .total_steps = 10};

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_near(schedule_learning_rate(&config, i + 1), torch[i]);
    assert_near(schedule_learning_rate(&config, 11), 0.01);
    assert_near(schedule_learning_rate(&config, 50), 0.01);
    config.warmup_steps = 4;
    config.total_steps = 14;
    assert_near(schedule_learning_rate(&config, 2), 0.05);
    assert_near(schedule_learning_rate(&config, 5), 0.1);
    assert_near(schedule_learning_rate(&config, 10), 0.055);
}

static void test_step(void **state)
{
    struct schedule_config config = {SCHEDULE_STEP, .learning_rate = 0.1, .every_steps = 3,
                                     .factor = 0.1};

    (void)state;
    assert_near(schedule_learning_rate(&config, 3), 0.1);
    assert_near(schedule_learning_rate(&config, 4), 0.01);
    assert_near(schedule_learning_rate(&config, 7), 0.001);
}

static void test_linear(void **state)
{
    /* LinearLR(start_factor=1, end_factor=0.5, total_iters=4) */
    static const double torch[] = {0.1, 0.0875, 0.075, 0.0625, 0.05, 0.05};
    struct schedule_config config = {SCHEDULE_LINEAR, .learning_rate = 0.1, .minimum = 0.05,
                                     .total_steps = 4};

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_near(schedule_learning_rate(&config, i + 1), torch[i]);
}

static void test_check(void **state)
{
    struct error error;
    struct schedule_config config = {SCHEDULE_COSINE, .learning_rate = 0.1, .total_steps = 10};

    (void)state;
    assert_int_equal(schedule_check(&config, &error), 0);
    config.warmup_steps = 10;
    assert_int_not_equal(schedule_check(&config, &error), 0);
    assert_non_null(strstr(error.text, "warm-up of 10 steps"));
    config.warmup_steps = 0;
    config.learning_rate = -1;
    assert_int_not_equal(schedule_check(&config, &error), 0);
    assert_int_equal(schedule_kind_from_string("cosine"), SCHEDULE_COSINE);
    assert_int_equal(schedule_kind_from_string("cosin"), -1);
}

static void test_tracker(void **state)
{
    struct tracker tracker;

    (void)state;
    tracker_init(&tracker, "validation_loss", 2, 0.01);
    assert_true(tracker_update(&tracker, 1.0, 10, 1));
    assert_false(tracker_update(&tracker, 0.995, 20, 2));
    assert_false(tracker_should_stop(&tracker));
    assert_true(tracker_update(&tracker, 0.9, 30, 3));
    assert_false(tracker_update(&tracker, NAN, 40, 4));
    assert_false(tracker_update(&tracker, 0.95, 50, 5));
    assert_true(tracker_should_stop(&tracker));
    assert_int_equal(tracker.best_step, 30);

    tracker_init(&tracker, "validation_accuracy", 0, 0);
    assert_false(tracker_update(&tracker, NAN, 1, 1));
    assert_true(tracker_update(&tracker, 0.5, 1, 1));
    assert_true(tracker_update(&tracker, 0.6, 2, 2));
    assert_false(tracker_update(&tracker, 0.6, 3, 3));
    assert_false(tracker_should_stop(&tracker));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_with_warmup),
                                       cmocka_unit_test(test_cosine),
                                       cmocka_unit_test(test_step),
                                       cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_tracker)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
