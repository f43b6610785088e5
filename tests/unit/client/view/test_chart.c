/* test_chart.c: curves as text: where their dots lie, what has no place, and how they are told
 * apart. */
#include "base/cleanup.h"
#include "client/view/chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct display dots = {.unicode = true, .columns = 24};
static const struct display letters = {.columns = 24};

static char *drawn(const struct chart *chart, const struct display *display, long left_out)
{
    char *text = NULL;
    size_t size;
    FILE *output = open_memstream(&text, &size);

    assert_int_equal(chart_print(chart, display, output), left_out);
    fclose(output);
    return text;
}

static void test_braille(void **state)
{
    double x[] = {0, 10, 20}, y[] = {0, 3, 0};
    struct chart_curve curve = {"hill", x, y, 3};
    const struct chart chart = {.x_title = "step", .curves = &curve, .count = 1, .rows = 3};
    AUTO_FREE char *text = drawn(&chart, &dots, 0);

    (void)state;
    assert_string_equal(text, "         3 │    ⢀⠔⠑⢄\n"
                              "       1.5 │  ⡠⠒⠁   ⠑⢄\n"
                              "         0 │⡠⠊        ⠑⢄\n"
                              "           └────────────\n"
                              "            0  step   20\n"
                              "━━ hill: last 0.0000, least 0.0000, greatest 3.0000\n");
}

static void test_letters(void **state)
{
    double x[] = {1, 2}, up[] = {1, 100}, down[] = {100, 1};
    struct chart_curve curves[] = {{"up", x, up, 2}, {"down", x, down, 2}};
    const struct chart chart = {
        .x_title = "step", .curves = curves, .count = 2, .rows = 3, .logarithmic = true};
    AUTO_FREE char *text = drawn(&chart, &letters, 0);

    (void)state;
    assert_string_equal(text, "       100 |bbb      aaa\n"
                              "        10 |   bbbbbb\n"
                              "         1 |aaa      bbb\n"
                              "           +------------\n"
                              "            1   step   2\n"
                              "a up: last 100.0000, least 1.0000, greatest 100.0000\n"
                              "b down: last 1.0000, least 1.0000, greatest 100.0000\n");
}

/* Values without a place interrupt a curve and are counted; a curve may have none that has one. */
static void test_left_out(void **state)
{
    double x[] = {1, 2, 3, NAN}, y[] = {1, NAN, 1, 1}, none[] = {INFINITY, -1, 0, NAN};
    struct chart_curve curves[] = {{"gap", x, y, 4}, {"no\nne", x, none, 4}};
    struct chart chart = {
        .x_title = "step", .curves = curves, .count = 2, .rows = 3, .logarithmic = true};
    AUTO_FREE char *text = drawn(&chart, &letters, 6), *empty = NULL;

    (void)state;
    assert_non_null(strstr(text, "|a          a\n"));
    assert_non_null(strstr(text, "b no\\x0ane: nothing to draw\n"));
    chart.curves = curves + 1;
    chart.count = 1;
    empty = drawn(&chart, &letters, 4);
    assert_string_equal(empty, "a no\\x0ane: nothing to draw\n");
}

/* Numbers whose difference is not finite, equal ones, and a single one. */
static void test_extremes(void **state)
{
    double x[] = {-1e308, 1e308}, y[] = {-1.7e308, 1.7e308}, one[] = {0};
    struct chart_curve curve = {"huge", x, y, 2}, single = {"single", one, one, 1};
    struct chart chart = {.x_title = "step", .curves = &curve, .count = 1, .rows = 3};
    AUTO_FREE char *huge = drawn(&chart, &dots, 0), *point = NULL;

    (void)state;
    assert_non_null(strstr(huge, "huge: last"));
    chart.curves = &single;
    point = drawn(&chart, &letters, 0);
    assert_non_null(strstr(point, "         0 |      a\n"));
}

/* Percents and counts: the axis begins at 0, also where nothing but 0 was sampled. */
static void test_from_zero(void **state)
{
    double x[] = {1, 2}, none[] = {0, 0}, high[] = {50, 60};
    struct chart_curve curve = {"busy", x, none, 2};
    struct chart chart = {
        .x_title = "step", .curves = &curve, .count = 1, .from_zero = true, .rows = 3};
    AUTO_FREE char *idle = drawn(&chart, &letters, 0), *busy = NULL;

    (void)state;
    assert_non_null(strstr(idle, "         1 |\n"));
    assert_non_null(strstr(idle, "         0 |aaaaaaaaaaaa\n"));
    curve.y = high;
    busy = drawn(&chart, &letters, 0);
    assert_non_null(strstr(busy, "        60 |"));
    assert_non_null(strstr(busy, "         0 |\n"));
}

/* The weights of a moving average of three values are 1/7, 2/7 and 4/7 when it keeps a half. */
static void test_smoothing(void **state)
{
    double values[] = {7, NAN, 14, 21}, unchanged[] = {1, 2};

    (void)state;
    chart_smooth(values, 4, 0.5);
    assert_true(values[0] == 7 && isnan(values[1]));
    assert_true(fabs(values[2] - (7 + 2 * 14) / 3.0) < 1e-12);
    assert_true(fabs(values[3] - (7 + 2 * 14 + 4 * 21) / 7.0) < 1e-12);
    chart_smooth(unchanged, 2, 0);
    assert_true(unchanged[0] == 1 && unchanged[1] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_braille),   cmocka_unit_test(test_letters),
        cmocka_unit_test(test_left_out),  cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_smoothing), cmocka_unit_test(test_from_zero),
    };

    display_set_locale();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
