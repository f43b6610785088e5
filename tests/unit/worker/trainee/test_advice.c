/* test_advice.c: which measurements lead to which advice. */
#include "worker/trainee/advice.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* 1,000 samples in steps of 10, 1 ms a sample; an evaluation takes 0.1 s, and a checkpoint 0.05. */
static const struct advice_base base = {
    .costs = {.step = 0.001, .evaluation = 0.1, .checkpoint = 0.05, .best_share = 0.5},
    .rhythm = {.epoch_samples = 1000,
               .step_samples = 10,
               .run_samples = 10000,
               .evaluate_epochs = 1,
               .checkpoint_epochs = 1},
    .data_share = INFINITY};

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g is not %.12g", value, expected);
}

static struct advice_option option(enum advice_kind kind, double step)
{
    return (struct advice_option){.kind = kind, .step = step, .rhythm = base.rhythm};
}

/* Of a base without evaluations and checkpoints. */
static int find(double noise, const struct advice_option *options, int count,
                struct advice_finding findings[ADVICE_KINDS])
{
    struct advice_base bare = base;

    bare.costs.evaluation = bare.costs.checkpoint = 0;
    bare.noise = noise;
    return advice_find(&bare, options, count, findings);
}

static void test_time(void **state)
{
    struct advice_time time = {0};

    (void)state;
    advice_time_add(&time, 1.0, 100, 0.001, true);
    assert_near(time.part[ADVICE_LAUNCH], 0.1);
    assert_near(time.part[ADVICE_ARITHMETIC], 0.9);
    assert_int_equal(advice_time_largest(&time), ADVICE_ARITHMETIC);
    advice_time_add(&time, 2.0, 10000, 0.001, false); /* 10 s of starts do not fit into 2 s */
    assert_near(time.part[ADVICE_LAUNCH], 2.1);
    assert_near(time.part[ADVICE_MEMORY], 0);
    assert_int_equal(advice_time_largest(&time), ADVICE_LAUNCH);
    assert_string_equal(advice_bottleneck_to_string(ADVICE_LAUNCH), "launch");
}

static void test_cost(void **state)
{
    struct advice_rhythm rhythm = base.rhythm;
    struct advice_cost cost = advice_cost_of(&base.costs, &rhythm);

    (void)state;
    /* at the end of an epoch there is one checkpoint, whether the weights are the best or not */
    assert_near(cost.evaluation, 0.1 / 1000);
    assert_near(cost.checkpoints, 0.05 / 1000);
    assert_near(cost.all, 0.001 + 0.15 / 1000);
    rhythm.checkpoint_epochs = 2;
    assert_near(advice_cost_of(&base.costs, &rhythm).checkpoints, 0.05 / 2000 + 0.05 / 4000);
    rhythm.evaluate_epochs = 0;
    rhythm.evaluate_steps = 5; /* 50 samples; half of the evaluations write a checkpoint */
    cost = advice_cost_of(&base.costs, &rhythm);
    assert_near(cost.evaluation, 0.1 / 50);
    assert_near(cost.checkpoints, 0.05 / 2000 + 0.025 / 50);
    rhythm = base.rhythm;
    rhythm.checkpoint_epochs = 0;
    rhythm.checkpoint_seconds = 0.5; /* every half second of all else 0.05 s, and the best ones */
    cost = advice_cost_of(&base.costs, &rhythm);
    assert_near(cost.checkpoints, 0.025 / 1000 + 0.1 * (0.001 + 0.1 / 1000 + 0.025 / 1000));
}

static void test_intervals(void **state)
{
    struct advice_base often = base;
    struct advice_rhythm rhythm;

    (void)state;
    /* 0.125 s with half a checkpoint are 5% of 2.375 s of steps more: 2,375 samples */
    assert_true(advice_evaluate_seldom(&base, &rhythm));
    assert_int_equal(rhythm.evaluate_epochs, 5);
    assert_int_equal(rhythm.evaluate_steps, 0);
    assert_int_equal(rhythm.checkpoint_epochs, 1);
    often.rhythm.run_samples = 3000; /* three epochs: no interval is longer than the run */
    assert_true(advice_evaluate_seldom(&often, &rhythm));
    assert_int_equal(rhythm.evaluate_epochs, 3);
    often.rhythm.evaluate_epochs = 3;
    assert_false(advice_evaluate_seldom(&often, &rhythm));
    often.rhythm.run_samples = 1e9;
    often.rhythm.evaluate_epochs = 5;
    assert_false(advice_evaluate_seldom(&often, &rhythm));
    /* 0.05 s are 5% of 0.95 s of steps more, which end within the epoch; 50 steps are too few */
    often.rhythm.checkpoint_epochs = 0;
    often.rhythm.checkpoint_steps = 1;
    often.rhythm.epoch_samples = 1e6;
    assert_true(advice_checkpoint_seldom(&often, &rhythm));
    assert_int_equal(rhythm.checkpoint_steps, 100);
    assert_int_equal(rhythm.checkpoint_epochs, 0);
    often.rhythm.checkpoint_steps = 0;
    often.rhythm.checkpoint_seconds = 600;
    assert_false(advice_checkpoint_seldom(&often, &rhythm));
    often.costs.evaluation = 0;
    often.rhythm.evaluate_epochs = 1;
    assert_false(advice_evaluate_seldom(&often, &rhythm));
}

/* The last weights are evaluated in any case: a run that is shorter than the interval has one
 * evaluation, and no rarer ones than that are there to be named. */
static void test_short_run(void **state)
{
    struct advice_base brief = base;
    struct advice_rhythm rhythm;

    (void)state;
    brief.rhythm.run_samples = 100; /* 10 steps of an epoch of 100 */
    assert_near(advice_cost_of(&brief.costs, &brief.rhythm).evaluation, 0.1 / 100);
    assert_false(advice_evaluate_seldom(&brief, &rhythm));
    brief.rhythm.evaluate_epochs = 0;
    brief.rhythm.evaluate_steps = 1;
    brief.costs.best_share = 0;
    brief.costs.evaluation = 0.01; /* at 5% of the time after 19 steps and more */
    assert_true(advice_evaluate_seldom(&brief, &rhythm));
    assert_int_equal(rhythm.evaluate_steps, 10);
    assert_near(advice_cost_of(&brief.costs, &rhythm).evaluation, 0.01 / 100);
    brief.rhythm.checkpoint_epochs = 0;
    brief.rhythm.checkpoint_steps = 50;
    assert_near(advice_cost_of(&brief.costs, &brief.rhythm).checkpoints, 0.05 / 100);
    brief.rhythm.run_samples = 130;
    assert_true(advice_evaluate_seldom(&brief, &rhythm));
    assert_int_equal(rhythm.evaluate_steps, 13);
}

static void test_both_intervals(void **state)
{
    struct advice_base best = base;
    struct advice_rhythm rhythm;
    enum advice_kind kind;

    (void)state;
    best.costs.best_share = 1; /* each evaluation writes a checkpoint, whether one is due or not */
    best.costs.checkpoint = 0.06;
    assert_true(advice_both_seldom(&best, &rhythm, &kind));
    assert_int_equal(rhythm.evaluate_epochs, 5);
    assert_int_equal(rhythm.checkpoint_epochs, 2);
    assert_int_equal(kind, ADVICE_EVALUATE);
    best.costs.checkpoint = 0.4;
    assert_true(advice_both_seldom(&best, &rhythm, &kind));
    assert_int_equal(rhythm.checkpoint_epochs, 10);
    assert_int_equal(kind, ADVICE_CHECKPOINT);
    best.costs.best_share = 0.1; /* fewer checkpoints suffice */
    assert_false(advice_both_seldom(&best, &rhythm, &kind));
}

/* Of five evaluations three were the best so far: of a hundred further ones few are. */
static void test_best_share(void **state)
{
    struct advice_costs costs = {.best_share = 0.6};
    struct advice_rhythm rhythm = base.rhythm;

    (void)state;
    assert_near(advice_best_share(&costs, 1e6), 0.6);
    costs.best_evaluations = 5;
    assert_near(advice_best_share(&costs, 3), 0.6);
    assert_near(advice_best_share(&costs, 105), (3 + log(21)) / 105);
    /* the run's evaluations are those of its rhythm; the last weights are written, too */
    costs =
        (struct advice_costs){.step = 1, .checkpoint = 1, .best_share = 0.6, .best_evaluations = 5};
    rhythm = (struct advice_rhythm){.epoch_samples = 10,
                                    .step_samples = 1,
                                    .run_samples = 1050,
                                    .evaluate_steps = 10,
                                    .checkpoint_epochs = INT64_MAX / 100};
    assert_near(advice_cost_of(&costs, &rhythm).checkpoints, (3 + log(21) + 1) / 1050);
}

static void test_gain(void **state)
{
    struct advice_option faster = option(ADVICE_RECOMPUTE, 0.0005);
    struct advice_finding findings[ADVICE_KINDS];

    (void)state;
    /* steps take half of the time, and what lies between them stays */
    assert_int_equal(advice_find(&base, &faster, 1, findings), 1);
    assert_near(findings[0].gain, 1.15 / 0.65);
    assert_near(findings[0].saved, 1 - 0.65 / 1.15);
    assert_near(findings[0].worth, findings[0].gain);
    /* an evaluation in another precision gets as much faster as a step */
    faster.kind = ADVICE_PRECISION;
    assert_int_equal(advice_find(&base, &faster, 1, findings), 1);
    assert_near(findings[0].gain, 1.15 / 0.6);
    /* the same steps with fewer evaluations */
    faster = option(ADVICE_EVALUATE, 0.001);
    faster.rhythm.evaluate_epochs = 4;
    assert_int_equal(advice_find(&base, &faster, 1, findings), 1);
    assert_near(findings[0].gain, 1.15 / 1.075);
    assert_true(find(0, &faster, 1, findings) == 0);
}

static void test_what_pays(void **state)
{
    struct advice_option options[] = {option(ADVICE_PRECISION, 0.0009), option(ADVICE_THREADS, NAN),
                                      option(ADVICE_RECOMPUTE, 0.00096)};
    struct advice_finding findings[ADVICE_KINDS];

    (void)state;
    assert_int_equal(find(0, options, 3, findings), 1); /* 4% is too little */
    assert_int_equal(findings[0].option, 0);
    assert_int_equal(find(0.04, options, 3, findings), 1);
    assert_int_equal(find(0.06, options, 3, findings), 0); /* 10% may be noise of 6% */
}

static struct advice_times times_of(const double *seconds, int count)
{
    struct advice_times times = {0};

    for (int i = 0; i < count; i++)
        advice_times_add(&times, seconds[i]);
    return times;
}

/* Other work disturbs most measurements; that two of them agree is enough. */
static void test_times(void **state)
{
    static const double disturbed[] = {0.003, 0.00102, 0.002, NAN, 0.001, 0.004};
    struct advice_times times = times_of(NULL, 0);

    (void)state;
    assert_true(isnan(advice_times_step(&times)));
    assert_true(advice_times_noise(&times) == 0);
    times = times_of(disturbed, 1);
    assert_near(advice_times_step(&times), 0.003);
    assert_true(advice_times_noise(&times) == 0);
    times = times_of(disturbed, 2);
    assert_near(advice_times_noise(&times), 0.003 / 0.00102 - 1);
    times = times_of(disturbed, 6);
    assert_int_equal(times.count, 5);
    assert_near(advice_times_step(&times), 0.001);
    assert_near(advice_times_noise(&times), 0.00102 / 0.001 - 1);
}

/* The base may be faster by its noise, and the change is no faster than its second measurement. */
static void test_noise_of_a_change(void **state)
{
    struct advice_option change = option(ADVICE_PRECISION, 0.0005);
    struct advice_finding findings[ADVICE_KINDS];

    (void)state;
    assert_near(advice_least_saved(0), ADVICE_GAIN_MIN);
    assert_near(advice_least_saved(0.9), 0.5); /* of a change without noise of its own */
    assert_int_equal(find(0.89, &change, 1, findings), 1);
    assert_int_equal(find(0.91, &change, 1, findings), 0);
    change.noise = 0.8;
    assert_int_equal(find(0, &change, 1, findings), 1);
    assert_near(findings[0].gain, 2); /* what is predicted is the fastest of both */
    assert_int_equal(find(0.1, &change, 1, findings), 0);
    change.noise = 0.95;
    assert_int_equal(find(0, &change, 1, findings), 0);
}

/* Evaluations take what they take, however much steps differ. */
static void test_what_pays_beside_noise(void **state)
{
    struct advice_option seldom = option(ADVICE_EVALUATE, base.costs.step);
    struct advice_finding findings[ADVICE_KINDS];
    struct advice_base often = base;

    (void)state;
    often.rhythm.evaluate_epochs = 0;
    often.rhythm.evaluate_steps = 1;
    often.noise = 0.6;
    assert_int_equal(advice_find(&often, &seldom, 1, findings), 1);
    often.rhythm = base.rhythm;
    seldom.rhythm.evaluate_epochs = 2;
    assert_int_equal(advice_find(&often, &seldom, 1, findings), 0);
}

static void test_order(void **state)
{
    /* the first batch that gains nearly as much as the largest: 8 to the power of 0.85 is 5.9 */
    struct advice_option options[] = {option(ADVICE_BATCH, 0.0005), option(ADVICE_BATCH, 0.001 / 6),
                                      option(ADVICE_BATCH, 0.001 / 8),
                                      option(ADVICE_THREADS, 0.001 / 2.3),
                                      option(ADVICE_PRECISION, 0.001 / 2.6)};
    struct advice_finding findings[ADVICE_KINDS];

    (void)state;
    assert_int_equal(find(0, options, 5, findings), 3);
    assert_int_equal(findings[0].option, 4);
    assert_int_equal(findings[1].option, 1); /* learns otherwise: the root of 6 is 2.45 */
    assert_near(findings[1].gain, 6);
    assert_int_equal(findings[2].option, 3);
    assert_true(advice_changes_learning(ADVICE_BATCH));
    assert_false(advice_changes_learning(ADVICE_LOADER_THREADS));
}

static void test_data(void **state)
{
    struct advice_option options[] = {option(ADVICE_LOADER_THREADS, 0.0004)};
    struct advice_base bare = base;
    struct advice_finding findings[ADVICE_KINDS];

    (void)state;
    bare.costs.evaluation = bare.costs.checkpoint = 0;
    bare.data_share = 0.2; /* no thread can save more than the waiting that there is */
    assert_int_equal(advice_find(&bare, options, 1, findings), 1);
    assert_near(findings[0].gain, 1.25);
    bare.data_share = 0.01;
    assert_int_equal(advice_find(&bare, options, 1, findings), 0);
}

static void test_learning_rate(void **state)
{
    (void)state;
    assert_near(advice_learning_rate(0.1, 4, true), 0.4);
    assert_near(advice_learning_rate(0.001, 4, false), 0.002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_time),
                                       cmocka_unit_test(test_cost),
                                       cmocka_unit_test(test_intervals),
                                       cmocka_unit_test(test_short_run),
                                       cmocka_unit_test(test_both_intervals),
                                       cmocka_unit_test(test_best_share),
                                       cmocka_unit_test(test_gain),
                                       cmocka_unit_test(test_what_pays),
                                       cmocka_unit_test(test_times),
                                       cmocka_unit_test(test_noise_of_a_change),
                                       cmocka_unit_test(test_what_pays_beside_noise),
                                       cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_data),
                                       cmocka_unit_test(test_learning_rate)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
