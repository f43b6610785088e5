/* test_suspension_costs.c: what leaving a GPU costs: at first, after measurements, and after a
 * restart. */
#include "daemon/jobs/suspension_costs.h"
#include "tests/support/store_fixture.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct device known = {.model = "NVIDIA H200"}, other = {.model = "NVIDIA L4"};

static bool within(double value, double least, double most)
{
    return value >= least && value <= most;
}

static void settle(struct store_fixture *fixture)
{
    while (store_pending(fixture->store) > 0)
        uv_run(&fixture->loop, UV_RUN_ONCE);
}

/* Before the first measurement: what an H200 took. */
static void at_first(void **state)
{
    struct store_fixture fixture;
    struct suspension_costs *costs;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    costs = suspension_costs_load(fixture.store);
    settle(&fixture);
    assert_true(within(suspension_cost(costs, &known, 900000000, SUSPENSION_OUT), 0.6, 0.8));
    assert_true(within(suspension_cost(costs, &known, 900000000, SUSPENSION_BACK), 0.35, 0.45));
    assert_true(within(suspension_cost(costs, &known, 21000000000, SUSPENSION_OUT), 11, 15));
    assert_true(within(suspension_cost(costs, &known, 21000000000, SUSPENSION_BACK), 4.5, 5.5));
    store_fixture_close(&fixture);
    suspension_costs_free(costs);
    store_fixture_end(&fixture);
}

static void measured_and_kept(void **state)
{
    struct store_fixture fixture;
    struct suspension_costs *costs;
    double before;

    (void)state;
    store_fixture_begin(&fixture);
    store_fixture_open(&fixture);
    costs = suspension_costs_load(fixture.store);
    settle(&fixture);
    before = suspension_cost(costs, &known, 10000000000, SUSPENSION_OUT);
    for (int i = 0; i < 30; i++)
        suspension_costs_measure(costs, &known, 10000000000, SUSPENSION_OUT, 30);
    /* neither tells anything */
    suspension_costs_measure(costs, &known, 1000, SUSPENSION_OUT, 30);
    suspension_costs_measure(costs, &known, 10000000000, SUSPENSION_OUT, NAN);
    assert_true(within(suspension_cost(costs, &known, 10000000000, SUSPENSION_OUT), 29.9, 30.1));
    assert_true(suspension_cost(costs, &other, 10000000000, SUSPENSION_OUT) == before);
    settle(&fixture);
    store_fixture_close(&fixture);
    suspension_costs_free(costs);

    store_fixture_open(&fixture);
    costs = suspension_costs_load(fixture.store);
    settle(&fixture);
    assert_true(within(suspension_cost(costs, &known, 10000000000, SUSPENSION_OUT), 29.9, 30.1));
    assert_true(within(suspension_cost(costs, &known, 900000000, SUSPENSION_BACK), 0.35, 0.45));
    store_fixture_close(&fixture);
    suspension_costs_free(costs);
    store_fixture_end(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_first),
        cmocka_unit_test(measured_and_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
