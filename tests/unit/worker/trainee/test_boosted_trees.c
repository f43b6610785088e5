/* test_boosted_trees.c: trees learn steps of columns, classes of two and more, and end in time. */
#include "worker/trainee/boosted_trees.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 600, TRAIN = 400 };

static float features[ROWS][3], values[ROWS];
static int32_t labels[ROWS];
static uint32_t numbers[ROWS];
static double gains[3], score;
static struct error error;
static struct boosting_rows rows;
static const struct boosting_part train = {.rows = numbers, .count = TRAIN};
static const struct boosting_part test = {.rows = numbers + TRAIN, .count = ROWS - TRAIN};

/* Column 1 decides: by four steps. */
static int reset(void **state)
{
    uint32_t draw = 1;

    (void)state;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (int k = 0; k < 3; k++) {
            draw = draw * 1664525 + 1013904223;
            features[i][k] = (float)(draw >> 8) / (float)(1 << 24);
        }
        labels[i] = (int32_t)(4 * features[i][1]);
        values[i] = (float)(labels[i] * 5 % 4);
        numbers[i] = i;
    }
    memset(gains, 0, sizeof gains);
    rows = (struct boosting_rows){.features = features[0], .width = 3};
    return 0;
}

static void measure(void)
{
    if (boosted_trees_score(&rows, &train, &test, INFINITY, gains, &score, &error) < 0)
        fail_msg("%s", error.text);
}

/* XGBoost may be missing. */
static bool has_trees(void)
{
    const struct boosting_part two = {.rows = numbers, .count = 2};
    double ignored;

    rows.values = values;
    if (boosted_trees_score(&rows, &two, &two, INFINITY, gains, &ignored, &error) != -ENOENT)
        return true;
    printf("SKIPPED: %s\n", error.text);
    return false;
}

static void test_values(void **state)
{
    (void)state;
    rows.values = values;
    measure();
    assert_true(score < 0.05); /* the values' variance is 1.25 */
    assert_true(gains[1] > 20 * (gains[0] + gains[2]));
    for (int i = 0; i < ROWS; i++)
        values[i] = 3;
    measure();
    assert_true(score == 0);
}

static void test_classes(void **state)
{
    (void)state;
    rows.labels = labels;
    rows.classes = 4;
    measure();
    assert_true(score > 0.95 && score <= 1);
    for (int i = 0; i < ROWS; i++)
        labels[i] = labels[i] == 1 || labels[i] == 3;
    rows.classes = 2;
    measure();
    assert_true(score > 0.95 && score <= 1);
    for (int i = 0; i < ROWS; i++) /* of a coin nothing is learnt */
        labels[i] = (int32_t)(features[i][2] * 4096) % 2;
    measure();
    assert_true(score > 0.35 && score < 0.65);
}

/* Fewer rows than two leaves have: the mean is all that is known. */
static void test_few_rows(void **state)
{
    const struct boosting_part few = {.rows = numbers, .count = 30};

    (void)state;
    rows.values = values;
    assert_int_equal(boosted_trees_score(&rows, &few, &test, INFINITY, gains, &score, &error), 0);
    assert_true(score > 1);
    assert_true(gains[1] == 0);
    assert_int_equal(boosted_trees_score(&rows, &train, &test, 0, gains, &score, &error), -ETIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_values, reset),
        cmocka_unit_test_setup(test_classes, reset),
        cmocka_unit_test_setup(test_few_rows, reset),
    };

    reset(NULL);
    if (!has_trees())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
