/* test_start_time.c: times as people write them. */
#include "client/submission/start_time.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* 2026-03-28 20:30:00 CET, the evening before clocks are set forward. */
static const double present = 1774726200;

static void expect_time(const char *text, double after)
{
    struct error error = {0};
    double time = 0;

    if (start_time_parse(text, present, &time, &error) < 0)
        fail_msg("%s: %s", text, error.text);
    if (time - present != after)
        fail_msg("%s is %.3f s after now, not %.3f", text, time - present, after);
}

static void expect_refusal(const char *text, const char *words)
{
    struct error error = {0};
    double time = 0;

    if (start_time_parse(text, present, &time, &error) != -EINVAL)
        fail_msg("%s was taken for %.0f", text, time);
    if (!strstr(error.text, words))
        fail_msg("%s: \"%s\" lacks \"%s\"", text, error.text, words);
}

static void times_are_read(void **state)
{
    (void)state;
    expect_time("+2h", 7200);
    expect_time("+90", 90);
    expect_time("+500 ms", 0.5);
    expect_time("@1774726260", 60);
    expect_time("21:00", 1800);
    expect_time("today 20:30:01", 1);
    expect_time("tomorrow", 12600);
    expect_time("tomorrow 01:00", 16200);
    expect_time("Tomorrow 12:00", 12600 + 11 * 3600); /* that day has 23 hours */
    expect_time("tomorrow 1:00", 16200);
    expect_time("Sunday 01:00", 16200);
    expect_time("sun", 12600);
    expect_time("saturday 21:00", 1800);
    expect_time("Sat 20:00", 7 * 86400 - 3600 - 1800); /* an hour shorter: today's has passed */
    expect_time("Wed 0:00", 4 * 86400 - 3600 - 73800);
    expect_time("2026-03-28T21:00", 1800);
    expect_time("2026-03-28 21:00:30", 1830);
    expect_time("2026-03-28T20:00Z", 1800);
    expect_time("2026-03-28 20:00 UTC", 1800);
    expect_time("2026-03-29", 12600);
    expect_time("2028-02-29 00:00 UTC", 1835395200 - present);
}

static void other_words_are_refused(void **state)
{
    static const char *const wrong[] = {"",           "soon",         "+",           "+soon",
                                        "+-2h",       "25:00",        "12:60",       "3:0",
                                        "12",         "2026-3-29",    "2026-13-01",  "2026-04-00",
                                        "tomorrow x", "2026-04-01x3", "@",           "@nan",
                                        "@1e999",     "12:00 CET",    "tomorrow+1h", "21:00:",
                                        "Mo 12:00",   "*-*-* 03:00",  "UTC",         "Z"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refusal(wrong[i], "is no time: write +2h");
    expect_refusal("03:00", "has passed already; for the next day write the day");
    expect_refusal("today", "has passed already");
    expect_refusal("2026-03-28T20:30", "has passed already");
    expect_refusal("+0", "has passed already");
    expect_refusal("@7", "has passed already");
    expect_refusal("tomorrow 02:30", "does not exist"); /* clocks go from 02:00 to 03:00 */
    expect_refusal("2027-02-29 03:00", "does not exist");
}

static void the_last_day_of_a_month_has_a_tomorrow(void **state)
{
    struct error error;
    double time;

    (void)state;
    assert_int_equal(start_time_parse("tomorrow 00:00 UTC", 1775001600 - 1, &time, &error), 0);
    assert_true(time == 1775001600); /* 2026-04-01 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(the_last_day_of_a_month_has_a_tomorrow),
    };

    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
