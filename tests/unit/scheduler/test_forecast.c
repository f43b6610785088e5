/* test_forecast.c: when waiting jobs are expected to start. */
#include "scheduler/forecast.h"
#include "tests/support/policy_machine.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STARTS_MAX = 32 };

static struct forecast_start starts[STARTS_MAX];

static int forecast(struct machine *machine)
{
    for (int i = 0; i < JOBS_MAX; i++)
        machine->jobs[i].length_known = true;
    decide(machine);
    return forecast_starts(&machine->snapshot, &machine->decision, starts, STARTS_MAX);
}

static void expect_start(int place, size_t index, double seconds)
{
    assert_int_equal(starts[place].index, index);
    assert_true(starts[place].seconds == seconds);
}

static void one_after_the_other_by_value(void **state)
{
    struct machine *machine = machine_new(1, 4);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->estimates[0][0].seconds = 50;
    machine->estimates[1][0].seconds = 300;
    machine->estimates[2][0].seconds = 200;
    machine->estimates[3][0].seconds = 100;
    assert_int_equal(forecast(machine), 3);
    expect_start(0, 3, 50);
    expect_start(1, 2, 150);
    expect_start(2, 1, 350);
    machine->jobs[1].priority = 1;
    assert_int_equal(forecast(machine), 3);
    expect_start(0, 1, 50);
    expect_start(1, 3, 350);
    expect_start(2, 2, 450);
    free(machine);
}

static void who_starts_now_comes_first(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    machine->estimates[0][0].seconds = 10;
    assert_int_equal(forecast(machine), 2);
    expect_start(0, 0, 0);
    expect_start(1, 1, 10);
    free(machine);
}

static void a_device_that_is_busy_for_long_is_passed_over(void **state)
{
    struct machine *machine = machine_new(3, 4);

    (void)state;
    for (int i = 0; i < 3; i++) {
        run_on(machine, i, on_device[i]);
        machine->jobs[i].movable = false;
    }
    machine->estimates[0][0].seconds = 700;
    machine->estimates[1][0].seconds = 400;
    machine->estimates[2][1].seconds = 500;
    assert_int_equal(forecast(machine), 1);
    expect_start(0, 3, 400);
    machine->jobs[3].devices = 2; /* of one type */
    assert_int_equal(forecast(machine), 1);
    expect_start(0, 3, 700);
    free(machine);
}

static void a_length_that_nobody_knows_ends_what_is_known(void **state)
{
    struct machine *machine = machine_new(1, 3);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    for (int i = 0; i < 3; i++)
        machine->jobs[i].length_known = false;
    decide(machine);
    assert_int_equal(forecast_starts(&machine->snapshot, &machine->decision, starts, STARTS_MAX),
                     2);
    assert_true(isinf(starts[0].seconds) && isinf(starts[1].seconds));
    machine->jobs[0].left_known = true;
    assert_int_equal(forecast_starts(&machine->snapshot, &machine->decision, starts, STARTS_MAX),
                     2);
    assert_true(starts[0].seconds == 1000 && isinf(starts[1].seconds));
    free(machine);
}

static void jobs_that_are_alike_follow_each_other(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->jobs[1].alike = 1000000;
    assert_int_equal(forecast(machine), STARTS_MAX);
    for (int i = 0; i < STARTS_MAX; i++)
        expect_start(i, 1, 1000 * (i + 1));
    free(machine);
}

static void memory_that_others_hold_is_not_expected_back(void **state)
{
    struct machine *machine = machine_new(1, 2);

    (void)state;
    run_on(machine, 0, on_device[0]);
    machine->jobs[0].movable = false;
    machine->estimates[1][0].memory = 650;
    machine->devices[0].memory_outside = 400;
    assert_int_equal(forecast(machine), 1);
    assert_true(isinf(starts[0].seconds));
    machine->devices[0].memory_outside = 0;
    assert_int_equal(forecast(machine), 1);
    expect_start(0, 1, 1000);
    free(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other_by_value),
        cmocka_unit_test(who_starts_now_comes_first),
        cmocka_unit_test(a_device_that_is_busy_for_long_is_passed_over),
        cmocka_unit_test(a_length_that_nobody_knows_ends_what_is_known),
        cmocka_unit_test(jobs_that_are_alike_follow_each_other),
        cmocka_unit_test(memory_that_others_hold_is_not_expected_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
