/* test_device_energy.c: a meter's joules divided among attempts that come
 * and go between readings. */
#include "daemon/devices/device.h"
#include "daemon/devices/device_claim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void come(struct device *device, struct device_claim *attempt, double now)
{
    attempt->devices[attempt->device_count++] = device;
    device_energy_mark(device, now);
    assert_int_equal(device_book(device, attempt, 0), 0);
}

static void leave(struct device *device, struct device_claim *attempt, double now)
{
    device_claim_settle_energy(attempt, now);
    device_unbook(device, attempt, 0);
}

static void test_shared_by_time(void **state)
{
    struct device device = {0};
    struct device_claim first = {0}, second = {0};

    (void)state;
    device_energy_read(&device, 1000, 90, 10);
    come(&device, &first, 10);
    come(&device, &second, 10.25);
    device_energy_read(&device, 1100, 90, 11); /* 100 W */
    assert_float_equal(device_claim_energy(&first, true, NAN), 100, 1e-9);
    assert_float_equal(device_claim_energy(&first, false, NAN), 25 + 37.5, 1e-9);
    assert_float_equal(device_claim_energy(&second, true, NAN), 75, 1e-9);
    assert_float_equal(device_claim_energy(&second, false, NAN), 37.5, 1e-9);
    leave(&device, &second, 11.5); /* half a second at 100 W, divided by two */
    assert_float_equal(device_claim_energy(&second, true, NAN), 125, 1e-9);
    assert_float_equal(device_claim_energy(&second, false, NAN), 62.5, 1e-9);
    device_energy_read(&device, 1400, 310, 12); /* 300 W, divided between both for half of the
                                                 * time */
    assert_float_equal(device_claim_energy(&first, true, NAN), 100 + 300, 1e-9);
    assert_float_equal(device_claim_energy(&first, false, NAN), 62.5 + 75 + 150, 1e-9);
    leave(&device, &first, 12);
    free(device.claims);
}

/* A meter that was last read while no attempt ran, one that restarts from 0, and a missing one. */
static void test_readings(void **state)
{
    struct device device = {0}, other = {0};
    struct device_claim attempt = {0}, unmetered = {0}, on_cpu = {0};

    (void)state;
    device_energy_read(&device, 0, 50, 0);
    come(&device, &attempt, 99);
    device_energy_read(&device, 6000, 300, 100); /* 60 W on average, mostly idle; now 300 */
    assert_float_equal(device_claim_energy(&attempt, false, NAN), 60, 1e-9);
    leave(&device, &attempt, 100.5);
    assert_float_equal(device_claim_energy(&attempt, false, NAN), 60 + 150, 1e-9);

    attempt = (struct device_claim){0};
    come(&device, &attempt, 101);
    device_energy_read(&device, 5, 200, 102); /* the driver was loaded again */
    leave(&device, &attempt, 102);
    assert_float_equal(device_claim_energy(&attempt, true, NAN), 200, 1e-9);

    device_energy_read(&other, NAN, NAN, 1);
    come(&other, &unmetered, 1);
    leave(&other, &unmetered, 2);
    assert_true(isnan(device_claim_energy(&unmetered, false, NAN)));
    assert_true(isnan(device_claim_energy(&on_cpu, false, NAN)));
    free(device.claims);
    free(other.claims);
}

/* A meter that is divided by processor time. */
static void test_divided_by_time(void **state)
{
    struct device device = {0};
    struct device_claim claim = {.device_count = 1, .devices = {&device}};

    (void)state;
    assert_true(isnan(device_claim_energy(&claim, false, 1)));
    device_energy_begin(&claim.energy[0], 1000, 50);
    assert_true(isnan(device_claim_energy(&claim, false, 1))); /* it has not ended */
    device_energy_end(&claim.energy[0], 1300, 90);
    assert_float_equal(device_claim_energy(&claim, true, 10), 300, 1e-9);
    assert_float_equal(device_claim_energy(&claim, false, 10), 75, 1e-9); /* 10 s of 40 */
    assert_float_equal(device_claim_energy(&claim, false, 0), 0, 1e-9);
    assert_float_equal(device_claim_energy(&claim, false, 41), 300, 1e-9); /* no more than all */
    assert_true(isnan(device_claim_energy(&claim, false, NAN)));
    device_energy_end(&claim.energy[0], 1300, 50);
    assert_float_equal(device_claim_energy(&claim, false, 0), 300, 1e-9); /* shorter than a tick */
    device_energy_end(&claim.energy[0], 1300, NAN);
    assert_true(isnan(device_claim_energy(&claim, false, 1)));
    /* an attempt that another daemon started */
    claim.energy[0] = (struct energy_use){0};
    device_energy_end(&claim.energy[0], 1300, 90);
    assert_true(isnan(device_claim_energy(&claim, true, 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_by_time),
                                       cmocka_unit_test(test_readings),
                                       cmocka_unit_test(test_divided_by_time)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
