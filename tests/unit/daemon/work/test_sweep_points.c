/* test_sweep_points.c: the points of a sweep as functions of their number; what is refused. */
#include "daemon/work/sweep_points.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SPEC "{\"command\":[\"true\"],\"environment\":{\"A\":\"1\"}}"

static struct json_object *parse(const char *text)
{
    struct json_object *object = NULL;

    if (json_parse(text, strlen(text), &object, NULL) < 0)
        fail_msg("%s", text);
    return object;
}

static struct sweep_points *points_read(const char *text)
{
    JSON_AUTO struct json_object *sweep = parse(text);
    struct sweep_points *points;
    struct error error = {0};

    if (sweep_points_read(sweep, 100000, &points, NULL, &error) < 0)
        fail_msg("%s: %s", text, error.text);
    return points;
}

static void expect_values(const struct sweep_points *points, int64_t index, const char *json)
{
    JSON_AUTO struct json_object *values = sweep_point_values(points, index);

    assert_string_equal(json_text(values, NULL), json);
}

static void last_axis_varies_fastest(void **state)
{
    static const char *const forms[] = {
        "{\"a\":[1,2],\"b\":[\"x\",\"y\",null]}",
        "{\"grid\":{\"a\":[1,2],\"b\":[\"x\",\"y\",null]}}",
    };

    (void)state;
    for (int form = 0; form < 2; form++) {
        struct sweep_points *points = points_read(forms[form]);

        assert_int_equal(sweep_points_count(points), 6);
        expect_values(points, 0, "{\"a\":1,\"b\":\"x\"}");
        expect_values(points, 1, "{\"a\":1,\"b\":\"y\"}");
        expect_values(points, 2, "{\"a\":1,\"b\":null}");
        expect_values(points, 3, "{\"a\":2,\"b\":\"x\"}");
        expect_values(points, 5, "{\"a\":2,\"b\":null}");
        sweep_points_free(points);
    }
}

static void lists_are_taken_as_they_are(void **state)
{
    struct sweep_points *points = points_read("{\"list\":[{\"a\":1},{\"b\":2,\"c\":{\"d\":3}}]}");

    (void)state;
    assert_int_equal(sweep_points_count(points), 2);
    expect_values(points, 1, "{\"b\":2,\"c\":{\"d\":3}}");
    sweep_points_free(points);
}

static void draws_stay_within(void **state)
{
    enum { COUNT = 20000 };
    struct sweep_points *points = points_read(
        "{\"random\":{\"u\":{\"uniform\":[-2,6]},\"l\":{\"log_uniform\":[1e-5,0.1]},"
        "\"i\":{\"integer\":[-1,2]},\"c\":{\"choice\":[\"x\",\"y\"]}},\"count\":20000,\"seed\":9}");
    double sum = 0, logarithms = 0;
    int integers[4] = {0}, x = 0;

    (void)state;
    assert_int_equal(sweep_points_count(points), COUNT);
    for (int64_t i = 0; i < COUNT; i++) {
        JSON_AUTO struct json_object *values = sweep_point_values(points, i);
        JSON_AUTO struct json_object *again = sweep_point_values(points, i);
        double u = json_get_double(values, "u", NAN), l = json_get_double(values, "l", NAN);
        int64_t integer = json_get_int(values, "i", 99);

        assert_true(u >= -2 && u <= 6 && l >= 1e-5 && l <= 0.1);
        assert_true(integer >= -1 && integer <= 2);
        assert_string_equal(json_text(values, NULL), json_text(again, NULL));
        sum += u;
        logarithms += log10(l);
        integers[integer + 1]++;
        x += strcmp(json_get_string(values, "c", ""), "x") == 0;
    }
    /* five standard deviations of the mean: widths 8 and 4, uniform, 20,000 draws */
    assert_true(fabs(sum / COUNT - 2) < 5 * 8 / sqrt(12.0 * COUNT));
    assert_true(fabs(logarithms / COUNT + 3) < 5 * 4 / sqrt(12.0 * COUNT));
    for (int i = 0; i < 4; i++)
        assert_true(abs(integers[i] - COUNT / 4) < 5 * sqrt(COUNT * 3.0 / 16));
    assert_true(abs(x - COUNT / 2) < 5 * sqrt(COUNT / 4.0));
    sweep_points_free(points);
}

/* The width of the range is beyond the numbers of a double. */
static void draws_of_the_widest_range(void **state)
{
    struct sweep_points *points =
        points_read("{\"random\":{\"u\":{\"uniform\":[-1.7e308,1.7e308]}},\"count\":1000}");
    int below = 0;

    (void)state;
    for (int64_t i = 0; i < 1000; i++) {
        JSON_AUTO struct json_object *values = sweep_point_values(points, i);

        below += json_get_double(values, "u", NAN) < 0;
    }
    assert_in_range(below, 420, 580); /* five standard deviations */
    sweep_points_free(points);
}

/* What is wrong with a distribution is named. */
static void wrong_distributions_are_named(void **state)
{
    static const char *const cases[][2] = {
        {"[]", "the list is empty"},
        {"{\"choice\":[]}", "the list is empty"},
        {"{\"log_uniform\":[0,1]}", "begins above 0"},
        {"{\"uniform\":[2,1]}", "a range ascends"},
        {"{\"integer\":[9007199254740993,9007199254740992]}", "a range ascends"},
        {"{\"uniform\":[1]}", "two numbers"},
        {"{\"uniform\":\"a\"}", "it must be a list"},
        {"{\"integer\":[1.5,3]}", "whole numbers"},
        {"{\"gauss\":[0,1]}", "it must be a list"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        struct sweep_points *points;
        struct error error;

        snprintf(text, sizeof text, "{\"random\":{\"a\":%s},\"count\":3}", cases[i][0]);
        JSON_AUTO struct json_object *sweep = parse(text);
        assert_int_equal(sweep_points_read(sweep, 10, &points, NULL, &error), -EINVAL);
        assert_non_null(strstr(error.text, cases[i][1]));
    }
}

static void seeds_differ(void **state)
{
    struct sweep_points *one =
        points_read("{\"random\":{\"a\":{\"uniform\":[0,1]},\"b\":{\"uniform\":[0,1]}},"
                    "\"count\":5,\"seed\":1}");
    struct sweep_points *two =
        points_read("{\"random\":{\"a\":{\"uniform\":[0,1]},\"b\":{\"uniform\":[0,1]}},"
                    "\"count\":5,\"seed\":2}");
    JSON_AUTO struct json_object *first = sweep_point_values(one, 3);
    JSON_AUTO struct json_object *second = sweep_point_values(two, 3);

    (void)state;
    assert_string_not_equal(json_text(first, NULL), json_text(second, NULL));
    assert_true(json_get_double(first, "a", 0) != json_get_double(first, "b", 0));
    sweep_points_free(one);
    sweep_points_free(two);
}

static void too_many_are_refused(void **state)
{
    /* 10^7 points, and more than 2^64 points, which must not overflow */
    static const char *const sweeps[] = {
        "{\"random\":{\"a\":{\"uniform\":[0,1]}},\"count\":10000000}",
        "{\"a\":[1,2],\"b\":[1,2],\"c\":[1,2],\"d\":[1,2],\"e\":[1,2],\"f\":[1,2],\"g\":[1,2],"
        "\"h\":[1,2],\"i\":[1,2],\"j\":[1,2],\"k\":[1,2],\"l\":[1,2],\"m\":[1,2],\"n\":[1,2],"
        "\"o\":[1,2],\"p\":[1,2],\"q\":[1,2]}",
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        JSON_AUTO struct json_object *sweep = parse(sweeps[i]);
        struct sweep_points *points;
        struct error error;

        assert_int_equal(sweep_points_read(sweep, 100000, &points, NULL, &error), -E2BIG);
        assert_non_null(strstr(error.text, "more than 100000 points"));
        assert_non_null(strstr(error.text, "SweepPointsMax"));
    }
}

static void specifications_get_the_values(void **state)
{
    struct sweep_points *points =
        points_read("{\"environment.B\":[\"2\",\"3\"],\"command[0]\":[\"false\"]}");
    JSON_AUTO struct json_object *spec = parse(SPEC), *made = NULL;
    struct error error;

    (void)state;
    assert_int_equal(sweep_point_spec(points, 1, spec, &made, &error), 0);
    assert_string_equal(json_text(made, NULL),
                        "{\"command\":[\"false\"],\"environment\":{\"A\":\"1\",\"B\":\"3\"}}");
    assert_string_equal(json_text(spec, NULL), SPEC); /* the specification is unchanged */
    sweep_points_free(points);
}

static void each_value_is_checked(void **state)
{
    static const struct {
        const char *sweep, *path;
    } wrong[] = {
        {"{\"environment.B\":[\"1\"],\"priority\":[0,1,99999]}", "priority"},
        {"{\"list\":[{\"priority\":1},{\"retry.limit\":-1}]}", "retry.limit"},
        {"{\"random\":{\"priority\":{\"integer\":[0,99999]}},\"count\":3}", "priority"},
        {"{\"random\":{\"priority\":{\"choice\":[0,\"x\"]}},\"count\":3}", "priority"},
        {"{\"after\":[1]}", "sweep"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sweep_points *points = points_read(wrong[i].sweep);
        JSON_AUTO struct json_object *spec = parse(SPEC);
        struct job_spec_fault fault = {0};
        struct error error;

        assert_int_equal(sweep_points_check(points, spec, INT64_MAX, &fault, &error), -EINVAL);
        assert_string_equal(fault.path, wrong[i].path);
        sweep_points_free(points);
    }
}

/* A value becomes 1.2 or 0.8 times itself within its range, or the neighbour of a choice. */
static void values_are_explored(void **state)
{
    struct sweep_points *points = points_read(
        "{\"search\":{\"metric\":\"m\",\"algorithm\":\"pbt\",\"trials\":4,\"max_epochs\":9,"
        "\"resample_probability\":0,\"space\":{\"a\":{\"uniform\":[0,1]},\"b\":[1,2,3],"
        "\"c\":{\"integer\":[1,9]}}}}");
    JSON_AUTO struct json_object *values = parse("{\"a\":0.9,\"b\":2,\"c\":2}");
    int up = 0;

    (void)state;
    for (uint32_t trial = 0; trial < 100; trial++) {
        JSON_AUTO struct json_object *made = sweep_point_explore(points, values, trial, 1);
        JSON_AUTO struct json_object *again = sweep_point_explore(points, values, trial, 1);
        double a = json_get_double(made, "a", 0);
        int64_t b = json_get_int(made, "b", 0), c = json_get_int(made, "c", 0);

        assert_true(json_object_equal(made, again));
        assert_true(a == 1 || fabs(a - 0.72) < 1e-12);
        assert_true(b == 1 || b == 3);
        assert_true(c == 1 || c == 3);
        up += a == 1;
    }
    assert_in_range(up, 30, 70);
    sweep_points_free(points);
}

/* A whole number becomes another one, also a small or a negative one. */
static void whole_numbers_are_explored(void **state)
{
    static const int cases[][3] = {
        {0, -1, 1}, {-1, 0, -2}, {-3, -2, -4}, {3, 2, 4}, {-10, -8, -10}};
    struct sweep_points *points = points_read(
        "{\"search\":{\"metric\":\"m\",\"algorithm\":\"pbt\",\"trials\":4,\"max_epochs\":9,"
        "\"resample_probability\":0,\"space\":{\"a\":{\"integer\":[-10,10]}}}}");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        JSON_AUTO struct json_object *values = json_object_new_object();

        json_set_int(values, "a", cases[i][0]);
        for (uint32_t trial = 0; trial < 30; trial++) {
            JSON_AUTO struct json_object *made = sweep_point_explore(points, values, trial, 1);
            int64_t a = json_get_int(made, "a", 99);

            assert_true(a == cases[i][1] || a == cases[i][2]);
        }
    }
    sweep_points_free(points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_axis_varies_fastest),
        cmocka_unit_test(lists_are_taken_as_they_are),
        cmocka_unit_test(draws_stay_within),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(specifications_get_the_values),
        cmocka_unit_test(each_value_is_checked),
        cmocka_unit_test(values_are_explored),
        cmocka_unit_test(draws_of_the_widest_range),
        cmocka_unit_test(wrong_distributions_are_named),
        cmocka_unit_test(whole_numbers_are_explored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
