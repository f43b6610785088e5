/* test_schedule.c: learning-rate schedules compared with those of PyTorch
 * (tests/reference/README.md), and the tracker of the best metric. */
#include "engine/train/schedule.h"
#include "engine/train/tracker.h"
#include "tests/support/reference.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The closed forms round differently from PyTorch, which computes step by step. */
static void assert_near(const char *what, double value, double expected)
{
    if (fabs(value - expected) > 1e-12 * fabs(expected) + 1e-15)
        fail_msg("%s: %.17g instead of %.17g", what, value, expected);
}

/* The schedule that the dump's attributes describe. */
static struct schedule_config read_config(const struct dump *dump)
{
    struct schedule_config config = {
        .kind = (enum schedule_kind)dump_attribute(dump, "schedule"),
        .learning_rate = dump_attribute(dump, "learning_rate"),
        .warmup_steps = (int64_t)reference_setting(dump, "warmup_steps"),
        .minimum = reference_setting(dump, "minimum"),
        .every_steps = (int64_t)reference_setting(dump, "every_steps"),
        .factor = reference_setting(dump, "factor"),
        .power = reference_setting(dump, "power"),
        .total_steps = (int64_t)reference_setting(dump, "total_steps"),
        .rise = reference_setting(dump, "rise"),
        .start_divisor = reference_setting(dump, "start_divisor"),
        .end_divisor = reference_setting(dump, "end_divisor"),
        .anneals_linearly = reference_setting(dump, "linear") != 0,
        .lowest_momentum = reference_setting(dump, "lowest_momentum"),
        .highest_momentum = reference_setting(dump, "highest_momentum"),
    };
    char name[32];

    for (int i = 0; i < 3 && config.kind == SCHEDULE_MULTI_STEP; i++) {
        snprintf(name, sizeof name, "milestone_%d", i);
        config.milestones[config.milestone_count++] = (int64_t)dump_attribute(dump, name);
    }
    return config;
}

/* ReduceLROnPlateau: the learning rate after each value. */
static void check_plateau(const char *file, const struct dump *dump)
{
    const struct plateau_config config = {
        .metric = dump_attribute(dump, "maximises") != 0 ? "validation_accuracy" : "train_loss",
        .factor = dump_attribute(dump, "factor"),
        .patience = (int64_t)dump_attribute(dump, "patience"),
        .threshold = dump_attribute(dump, "threshold"),
        .relative = dump_attribute(dump, "threshold_mode") != 0,
        .cooldown = (int64_t)dump_attribute(dump, "cooldown"),
        .minimum = dump_attribute(dump, "min_lr")};
    const struct dump_tensor *values = dump_find(dump, "values");
    const double *rates = dump_find(dump, "expected/learning_rates")->values;
    struct schedule_config schedule = read_config(dump);
    struct plateau plateau;

    plateau_init(&plateau, &config, schedule.learning_rate);
    for (int64_t i = 0; i < values->elements; i++) {
        plateau_update(&plateau, &config, ((const double *)values->values)[i]);
        assert_near(file, schedule_learning_rate(&schedule, &plateau, i + 1), rates[i]);
    }
    assert_true(rates[values->elements - 1] < schedule.learning_rate);
}

/* Compares the learning rate, and the momentum if it is cycled, of every step. */
static void check_schedule(const char *file, const struct dump *dump)
{
    struct schedule_config config = read_config(dump);
    const struct dump_tensor *momenta = dump_find(dump, "expected/momenta");
    const struct dump_tensor *rates = dump_find(dump, "expected/learning_rates");
    const double *rate = rates->values;
    struct error error = {0};

    if (config.kind == SCHEDULE_PLATEAU) {
        check_plateau(file, dump);
        return;
    }
    if (schedule_check(&config, &error))
        fail_msg("%s: %s", file, error.text);
    for (int64_t i = 0; i < rates->elements; i++) {
        assert_near(file, schedule_learning_rate(&config, NULL, i + 1), rate[i]);
        if (momenta)
            assert_near(file, schedule_momentum(&config, i + 1),
                        ((const double *)momenta->values)[i]);
    }
}

static void test_schedules(void **state)
{
    (void)state;
    assert_int_equal(dump_for_each("schedules", check_schedule), 18);
}

/* Beyond the run's end (which may have been shortened before a resume) a schedule keeps its last
 * value. */
static void test_beyond_the_end(void **state)
{
    struct schedule_config config = {SCHEDULE_COSINE, .learning_rate = 0.1, .minimum = 0.01,
                                     .total_steps = 10};

    (void)state;
    assert_near("cosine", schedule_learning_rate(&config, NULL, 50), 0.01);
    config = (struct schedule_config){SCHEDULE_ONE_CYCLE,  .learning_rate = 0.1, .rise = 0.3,
                                      .start_divisor = 10, .end_divisor = 10,    .total_steps = 10};
    assert_near("one_cycle", schedule_learning_rate(&config, NULL, 50), 0.001);
    config.total_steps = 1;
    assert_near("one step", schedule_learning_rate(&config, NULL, 1), 0.001);
}

/* The warm-up rises to the peak that the plateau schedule has left. */
static void test_plateau_after_warmup(void **state)
{
    struct schedule_config config = {SCHEDULE_PLATEAU, .learning_rate = 0.1, .warmup_steps = 4};
    const struct plateau plateau = {.learning_rate = 0.05};

    (void)state;
    assert_near("warm-up", schedule_learning_rate(&config, &plateau, 2), 0.025);
    assert_near("plateau", schedule_learning_rate(&config, &plateau, 5), 0.05);
}

/* 1 - t^(-2/3), as Python computes it: timm's ModelEmaV3 with warm-up and its defaults. */
static void test_average_decay(void **state)
{
    static const double warm[] = {0, 0.3700394750525634, 0.5192501432308638, 0.6031497370079502};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_near("warm-up", schedule_average_decay(0.999, true, i + 1), warm[i]);
    assert_near("decay", schedule_average_decay(0.999, true, 100000), 0.999);
    assert_near("first", schedule_average_decay(0.999, false, 1), 0);
    assert_near("second", schedule_average_decay(0.999, false, 2), 0.999);
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
    config = (struct schedule_config){SCHEDULE_MULTI_STEP, .learning_rate = 0.1,
                                      .milestones = {3, 3}, .milestone_count = 2};
    assert_int_equal(schedule_check(&config, &error), -EINVAL);
    assert_int_equal(schedule_kind_from_string("cosine"), SCHEDULE_COSINE);
    assert_int_equal(schedule_kind_from_string("cosin"), -1);
}

static void test_exponential(void **state)
{
    struct schedule_config config = {
        .kind = SCHEDULE_EXPONENTIAL, .learning_rate = 10, .minimum = 1e-7, .total_steps = 9};
    struct error error = {0};

    (void)state;
    assert_int_equal(schedule_check(&config, &error), 0);
    for (int step = 1; step <= 9; step++)
        assert_float_equal(log10(schedule_learning_rate(&config, NULL, step)), step - 8, 1e-12);
    assert_true(schedule_is_test(config.kind));
    config.minimum = 0;
    assert_int_equal(schedule_check(&config, &error), -EINVAL);
    assert_string_equal(error.text, "the exponential schedule grows from train.schedule.min_lr, "
                                    "which must be above 0");
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

    tracker_init(&tracker, "validation_sixteen_letters__loss", 0, 0); /* of a head */
    assert_string_equal(tracker.metric, "validation_sixteen_letters__loss");
    assert_true(tracker_update(&tracker, 1.0, 10, 1));
    assert_true(tracker_update(&tracker, 0.5, 20, 2));

    tracker_init(&tracker, "validation_accuracy", 0, 0);
    assert_false(tracker_update(&tracker, NAN, 1, 1));
    assert_true(tracker_update(&tracker, 0.5, 1, 1));
    assert_true(tracker_update(&tracker, 0.6, 2, 2));
    assert_false(tracker_update(&tracker, 0.6, 3, 3));
    assert_false(tracker_should_stop(&tracker));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_schedules),
                                       cmocka_unit_test(test_beyond_the_end),
                                       cmocka_unit_test(test_plateau_after_warmup),
                                       cmocka_unit_test(test_average_decay),
                                       cmocka_unit_test(test_check),
                                       cmocka_unit_test(test_exponential),
                                       cmocka_unit_test(test_tracker)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
