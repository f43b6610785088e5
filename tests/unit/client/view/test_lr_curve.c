/* test_lr_curve.c: the curve of a range test, where it diverges, and what it suggests. */
#include "client/view/lr_curve.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 100 };

static void add_row(struct json_object *rows, int step, const char *name, double value)
{
    struct json_object *row = json_object_new_object();

    json_set_int(row, "step", step);
    json_set_string(row, "name", name);
    json_set_double(row, "value", value);
    json_object_array_add(rows, row);
}

static double rate_of(int step)
{
    return 1e-7 * pow(1e8, (double)(step - 1) / (STEPS - 1));
}

/* A loss that falls between the steps 40 and 60, and explodes from step 80 on. */
static double loss_of(int step)
{
    double fall = 1 / (1 + exp(-(step - 50) / 3.0));

    return 3 - 2 * fall + (step > 80 ? pow(2, step - 80) : 0);
}

static struct json_object *curve_new(double (*loss)(int step))
{
    JSON_AUTO struct json_object *rows = json_object_new_array();

    for (int step = 1; step <= STEPS; step++) {
        if (step % 30 == 0) /* the end of an epoch has no loss of its own */
            continue;
        add_row(rows, step, "step_loss", loss(step));
        add_row(rows, step, "learning_rate", rate_of(step));
    }
    return lr_curve_new(rows);
}

static void test_steepest(void **state)
{
    JSON_AUTO struct json_object *curve = curve_new(loss_of);
    struct json_object *points = json_get(curve, "points");
    double suggestion = json_get_double(curve, "suggestion", NAN);

    (void)state;
    assert_true(json_get_bool(curve, "diverged", false));
    assert_in_range(json_object_array_length(points), 75, 90);
    assert_float_equal(json_get_double(json_object_array_get_idx(points, 0), "smoothed", NAN),
                       loss_of(1), 1e-9); /* without its bias, the average begins with the loss */
    assert_true(suggestion >= rate_of(45) && suggestion <= rate_of(60));
}

static double rising(int step)
{
    return step;
}

static double broken(int step)
{
    return step < 8 ? 1 : NAN;
}

static void test_no_suggestion(void **state)
{
    JSON_AUTO struct json_object *curve = curve_new(rising), *short_one = curve_new(broken);

    (void)state;
    assert_null(json_get(curve, "suggestion"));
    assert_true(json_get_bool(curve, "diverged", false));
    assert_null(json_get(short_one, "suggestion"));
    assert_int_equal(json_object_array_length(json_get(short_one, "points")), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steepest),
                                       cmocka_unit_test(test_no_suggestion)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
