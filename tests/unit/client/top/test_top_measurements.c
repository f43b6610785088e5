/* test_top_measurements.c: what devices were measured at, and the curves that are drawn of it. */
#include "client/top/area.h"
#include "client/top/measurements.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { NOW = 1000000 };

static void put(struct measurements *measurements, const char *device, double from, double to,
                double value)
{
    const double values[MEASURED_VALUES] = {value, 1 - value};

    measurements_put(measurements, device, from, to, values);
}

static void test_measurements(void **state)
{
    struct measurements *measurements = measurements_new();

    (void)state;
    put(measurements, "b", NOW, NOW, 0.25);
    put(measurements, "a", NOW, NOW, 0.5);
    put(measurements, "b", NOW + 1, NOW + 1, 0.75); /* the same slot: the mean */
    put(measurements, "b", NOW - 4, NOW - 4, NAN);
    assert_true(measurements_get(measurements, "b", MEASURED_UTILISATION, NOW, 0) == 0.5);
    assert_true(measurements_get(measurements, "a", MEASURED_MEMORY, NOW + 2, 1) == 0.5);
    assert_true(isnan(measurements_get(measurements, "b", MEASURED_UTILISATION, NOW, 1)));
    assert_true(isnan(measurements_get(measurements, "b", MEASURED_UTILISATION, NOW, 2)));
    assert_true(isnan(measurements_get(measurements, "c", MEASURED_UTILISATION, NOW, 0)));
    measurements_free(measurements);
}

/* Values that somebody else kept come later, are older, and hold for longer than a slot. */
static void test_older_values(void **state)
{
    struct measurements *measurements = measurements_new();

    (void)state;
    put(measurements, "a", NOW, NOW, 1);
    put(measurements, "a", NOW - 20, NOW - 11, 0.5);
    for (size_t ago = 6; ago <= 10; ago++)
        assert_true(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW, ago) == 0.5);
    assert_true(isnan(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW, 5)));
    /* of an hour, however long a value is said to hold */
    put(measurements, "a", 1, NOW - 2, 0.25);
    assert_true(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW,
                                 MEASUREMENTS_SLOTS - 1) == 0.25);
    assert_true(
        isnan(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW, MEASUREMENTS_SLOTS)));
    assert_true(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW, 0) == 1);
    /* an hour later the slots are those of other times */
    put(measurements, "a", NOW + 3600, NOW + 3600, 0);
    assert_true(isnan(measurements_get(measurements, "a", MEASURED_UTILISATION, NOW + 3600, 1)));
    put(measurements, "a", NAN, NOW, 1);
    put(measurements, "a", -5, 1e300, 1);
    measurements_free(measurements);
}

static void test_curves(void **state)
{
    const double parts[] = {NAN, 0, 0.25, 0.5, 0.75, 1, 2, -1};
    char text[64];

    (void)state;
    assert_string_equal(area_row(parts, 4, 1, 0, true, text, sizeof text), "⢀⣠⣾⣇");
    assert_string_equal(area_row(parts, 4, 2, 0, true, text, sizeof text), "  ⣼⡇");
    assert_string_equal(area_row(parts, 4, 2, 1, true, text, sizeof text), "⢀⣼⣿⣇");
    assert_string_equal(area_row(parts, 4, 1, 0, false, text, sizeof text), ".=##");
    assert_int_equal(strlen(area_row(parts, 4, 1, 0, true, text, 8)), 6); /* as much as fits */
    assert_string_equal(area_row(parts, 0, 1, 0, true, text, sizeof text), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measurements),
        cmocka_unit_test(test_older_values),
        cmocka_unit_test(test_curves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
