/* test_predictions.c: step times by step and type of device, the correction of predictions by
 * measurements, and what remains of both after a restart. The figures are invented. */
#include "daemon/jobs/predictions.h"
#include "tests/support/store_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct devices machine = {.type_names = {"cpu Aster", "simulated"}, .type_count = 2};
/* the same devices, numbered differently */
static const struct devices turned = {.type_names = {"simulated", "cpu Aster"}, .type_count = 2};

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void test_steps(void **state)
{
    uint64_t one = prediction_step("0123456789abcdef0123456789abcdef");
    struct predictions_table table;
    struct predictions *own;
    struct step_time time;

    (void)state;
    assert_true(one == UINT64_C(0x0123456789abcdef));
    assert_true(prediction_step("no digest") != prediction_step("another"));
    predictions_init(&table, &machine, NULL);
    own = predictions_of_user(&table, 1000);
    assert_false(predictions_find(own, one, 0, &time));
    predictions_observe(own, one, 0, NAN, 0.02, 100);
    predictions_observe(own, one, 0, NAN, NAN, 100);
    predictions_observe(own, one, 0, NAN, 0.02, 0);
    assert_true(predictions_find(own, one, 0, &time));
    assert_true(near(time.seconds, 0.02) && time.steps == 100 && time.deviation < 0.05);
    assert_false(predictions_find(own, one, 1, &time));
    /* the table grows */
    for (uint64_t step = 1; step <= 1000; step++)
        predictions_observe(own, step, 1, NAN, (double)step, 1);
    for (uint64_t step = 1; step <= 1000; step++) {
        assert_true(predictions_find(own, step, 1, &time));
        assert_true(near(time.seconds, (double)step));
    }
    assert_true(predictions_find(own, one, 0, &time));
    predictions_release(&table);
}

/* The measurements of a user's jobs count for that user alone: neither step times nor errors are
 * another user's. */
static void test_users(void **state)
{
    struct predictions_table table;
    struct predictions *own, *other;
    struct step_time time;
    double deviation, usual;

    (void)state;
    predictions_init(&table, &machine, NULL);
    own = predictions_of_user(&table, 1000);
    other = predictions_of_user(&table, 1001);
    assert_ptr_equal(predictions_of_user(&table, 1000), own);
    predictions_scale(other, 0, &usual);
    for (uint64_t step = 1; step <= 50; step++)
        predictions_observe(own, step, 0, 0.0025, 1192, 1e6);
    assert_true(predictions_find(own, 7, 0, &time));
    assert_false(predictions_find(other, 7, 0, &time));
    assert_true(predictions_scale(own, 0, &deviation) > 1e5);
    assert_true(predictions_scale(other, 0, &deviation) == 1 && deviation == usual);
    predictions_release(&table);
}

/* Predictions of half the measured time are doubled; a more certain measurement counts for more. */
static void test_scale(void **state)
{
    struct predictions_table table;
    struct predictions *own;
    double deviation, usual, scale;

    (void)state;
    predictions_init(&table, &machine, NULL);
    own = predictions_of_user(&table, 1000);
    assert_true(predictions_scale(own, 0, &usual) == 1);
    predictions_observe(own, 1, 0, 1.0, 2.0, 5); /* too few to draw a conclusion */
    assert_true(predictions_scale(own, 0, &deviation) == 1);
    predictions_observe(own, 1, 0, 1.0, 2.0, 5);
    scale = predictions_scale(own, 0, &deviation);
    assert_true(near(scale, sqrt(2)));
    predictions_observe(own, 1, 0, 1.0, 2.0, 50); /* each step counts once */
    assert_true(near(predictions_scale(own, 0, &deviation), scale));
    for (uint64_t step = 2; step <= 50; step++)
        predictions_observe(own, step, 0, 1.0, 2.0, 20);
    scale = predictions_scale(own, 0, &deviation);
    assert_true(scale > 1.95 && scale < 2);
    assert_true(deviation < usual / 2);
    /* without a prediction there is nothing to compare, and other types are independent */
    predictions_observe(own, 99, 1, NAN, 2.0, 20);
    assert_true(predictions_scale(own, 1, &deviation) == 1);
    assert_true(deviation == usual);
    predictions_release(&table);
}

/* ---- a restart ---- */

static void test_restart(void **state)
{
    struct predictions_table table;
    struct predictions *own;
    struct step_time time;
    struct store_fixture fixture;
    double deviation;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    predictions_init(&table, &machine, fixture.store);
    own = predictions_of_user(&table, 1000);
    predictions_observe(own, 7, 0, 1.0, 2.0, 40);
    /* fewer than twice as many steps: it is not stored again */
    predictions_observe(own, 7, 0, 1.0, 2.0, 39);
    predictions_observe(own, 8, 1, NAN, 3.0, 40);
    predictions_observe(own, 9, 0, 1.0, 3.0, 3); /* too few to be kept */
    store_fixture_close(&fixture);
    predictions_release(&table);

    store_fixture_open(&fixture);
    predictions_init(&table, &turned, fixture.store);
    predictions_load(&table);
    while (store_pending(fixture.store))
        uv_run(&fixture.loop, UV_RUN_ONCE);
    own = predictions_of_user(&table, 1000);
    assert_false(predictions_find(predictions_of_user(&table, 1001), 7, 1, &time));
    assert_true(predictions_find(own, 7, 1, &time));
    assert_true(near(time.seconds, 2.0) && time.steps == 40);
    assert_true(predictions_find(own, 8, 0, &time));
    assert_true(near(time.seconds, 3.0));
    assert_false(predictions_find(own, 7, 0, &time));
    assert_false(predictions_find(own, 9, 1, &time));
    assert_true(near(predictions_scale(own, 1, &deviation), sqrt(2)));
    store_fixture_close(&fixture);
    predictions_release(&table);
    store_fixture_end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_users),
                                       cmocka_unit_test(test_scale),
                                       cmocka_unit_test(test_restart)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
