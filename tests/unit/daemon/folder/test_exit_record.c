/* test_exit_record.c: impossible values of an exit record are not used. */
#include "daemon/folder/exit_record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const double earliest = 1000, now = 2000;

static struct json_object *bounded(const char *text)
{
    struct json_object *record;

    assert_int_equal(json_parse(text, strlen(text), &record, NULL), 0);
    exit_record_bound(record, earliest, now);
    return record;
}

static void check_times(const char *text, double started, double ended)
{
    JSON_AUTO struct json_object *record = bounded(text);

    assert_true(json_get_double(record, "started", NAN) == started);
    assert_true(json_get_double(record, "ended", NAN) == ended);
}

static void times_lie_between_the_launch_and_now(void **state)
{
    (void)state;
    check_times("{\"started\": 1200.5, \"ended\": 1300.25}", 1200.5, 1300.25);
    check_times("{\"started\": 1000, \"ended\": 2000}", 1000, 2000);
    check_times("{\"started\": 1300, \"ended\": 1200}", 1300, 1300);
    check_times("{\"started\": -1e308, \"ended\": 1e308}", 1000, 2000);
    check_times("{\"started\": 1e308, \"ended\": -1e308}", 2000, 2000);
    check_times("{\"started\": 0, \"ended\": 0}", 1000, 1000);
    check_times("{\"started\": null, \"ended\": \"now\"}", 2000, 2000);
    check_times("{}", 2000, 2000);
}

static void a_clock_that_went_back_makes_no_time_in_the_future(void **state)
{
    JSON_AUTO struct json_object *record = json_object_new_object();

    (void)state;
    json_set_double(record, "started", 1500);
    json_set_double(record, "ended", 1600);
    exit_record_bound(record, 3000, 2000);
    assert_true(json_get_double(record, "started", NAN) == 2000);
    assert_true(json_get_double(record, "ended", NAN) == 2000);
}

static void numbers_that_cannot_be_are_dropped(void **state)
{
    static const char *const keys[] = {
        "exit_status",       "signal",      "cpu_seconds", "peak_resident_bytes",
        "peak_memory_bytes", "spool_bytes", "lost_metrics"};
    static const char *const values[] = {"-1", "-1e308", "\"1\"", "[]", "true", "null"};

    (void)state;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char text[128];

            snprintf(text, sizeof text, "{\"%s\": %s}", keys[k], values[v]);
            JSON_AUTO struct json_object *record = bounded(text);
            assert_null(json_get(record, keys[k]));
        }
    }
    JSON_AUTO struct json_object *large = bounded(
        "{\"exit_status\": 256, \"signal\": 65, \"cpu_seconds\": 1e308, \"peak_resident_bytes\": "
        "4611686018427387904, \"peak_memory_bytes\": 1e18, \"lost_metrics\": 1e18}");
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        assert_null(json_get(large, keys[k]));
    JSON_AUTO struct json_object *true_ones =
        bounded("{\"exit_status\": 255, \"signal\": 9, \"cpu_seconds\": 1.5, "
                "\"peak_resident_bytes\": 1048576}");
    assert_int_equal(json_get_int(true_ones, "exit_status", -1), 255);
    assert_int_equal(json_get_int(true_ones, "signal", -1), 9);
    assert_true(json_get_double(true_ones, "cpu_seconds", NAN) == 1.5);
    assert_int_equal(json_get_int(true_ones, "peak_resident_bytes", -1), 1048576);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_lie_between_the_launch_and_now),
        cmocka_unit_test(a_clock_that_went_back_makes_no_time_in_the_future),
        cmocka_unit_test(numbers_that_cannot_be_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
