/* test_calendar.c: calendar expressions. The times are those that `systemd-analyze calendar
 * --base-time=@AFTER --iterations=3 EXPRESSION` of systemd 252 prints in the same time zone. */
#include "daemon/work/calendar.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* 2026-03-28 20:30:00 CET, the evening before clocks are set forward */
static const int64_t present = 1774726200;

static void times_are_those_of_systemd(void **state)
{
    static const struct {
        const char *expression;
        int64_t times[3]; /* after `present`, in seconds */
    } cases[] = {
        {"daily", {12600, 95400, 181800}},
        {"weekly", {95400, 700200, 1305000}},
        {"monthly", {268200, 2860200, 5538600}},
        {"quarterly", {268200, 8130600, 16079400}},
        {"semiannually", {8130600, 24031800, 39666600}},
        {"yearly", {24031800, 55567800, 87190200}},
        {"hourly", {1800, 5400, 9000}},
        {"minutely", {60, 120, 180}},
        {"daily UTC", {16200, 102600, 189000}},
        {"Mon..Fri 03:00", {106200, 192600, 279000}},
        {"Sat,Sun 20:15:30", {81930, 600330, 686730}},
        {"*:0/15", {900, 1800, 2700}},
        {"*:5/20:30", {930, 2130, 3330}},
        {"*-*-01 04:30 UTC", {291600, 2883600, 5562000}},
        {"Mon *-*-1..7 12:00", {743400, 3162600, 5581800}},
        {"*-02-29", {60665400, 186895800, 313126200}},
        {"*-*~1", {181800, 2773800, 5452200}},
        {"*-02~03", {28870200, 60492600, 92028600}},
        {"*-*-31 00:00", {181800, 5452200, 10722600}},
        {"2027-01-01", {24031800}},
        {"*-1,4,7-15 6,18:00", {1499400, 1542600, 9361800}},
        {"02:30", {104400, 190800, 277200}},
        {"2026..2030/2-*-1", {268200, 2860200, 5538600}},
        {"03-29 02:30", {31554000, 63176400, 94712400}},
        {"Wednesday 17:48", {332280, 937080, 1541880}},
        {"12-24..26 08:00", {23369400, 23455800, 23542200}},
        {"*-*~1,3", {12600, 181800, 2601000}},
        {"Mon *-05~07/1", {4933800, 36988200, 68437800}},
        {"*-*~3/2", {12600, 181800, 2601000}},
        {"2027-03~24..29/3 UTC", {29478600, 29737800}},
        {"*:*:0/20", {20, 40, 60}},
    };

    (void)state;
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct calendar calendar;
        struct error error = {0};
        int64_t at = present;

        if (calendar_parse(cases[i].expression, &calendar, &error) < 0)
            fail_msg("%s: %s", cases[i].expression, error.text);
        for (int n = 0; n < 3 && cases[i].times[n]; n++)
            if (calendar_next(&calendar, at, &at) < 0 || at - present != cases[i].times[n])
                fail_msg("%s: time %d is %lld, not %lld", cases[i].expression, n,
                         (long long)(at - present), (long long)cases[i].times[n]);
    }
}

/* Lets mktime() guess that clocks are in winter, or in summer: of a time that they show twice it
 * then takes the one or the other. */
static void mktime_lead(int month)
{
    struct tm parts = {.tm_year = 126, .tm_mon = month, .tm_mday = 5, .tm_isdst = -1};

    mktime(&parts);
}

static void what_clocks_show_twice_comes_once(void **state)
{
    static const char *const expressions[] = {"02:30", "*:30"};
    static const int64_t first_half_past_two = 1792888200; /* on 2026-10-25, 02:30 CEST */

    (void)state;
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++)
        for (int month = 0; month < 12; month += 6) {
            struct calendar calendar;
            int64_t at = first_half_past_two - 1800;

            assert_int_equal(calendar_parse(expressions[i], &calendar, NULL), 0);
            mktime_lead(month);
            assert_int_equal(calendar_next(&calendar, at, &at), 0);
            assert_int_equal(at, first_half_past_two);
            mktime_lead(6 - month);
            assert_int_equal(calendar_next(&calendar, at, &at), 0);
            assert_int_equal(at, first_half_past_two + (i == 0 ? 25 : 2) * 3600);
        }
}

static void what_never_comes_is_told(void **state)
{
    static const char *const expressions[] = {"2020-01-01", "*-02-30", "2026-01-01..03",
                                              "Mon 2027-01-01"};

    (void)state;
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        struct calendar calendar;
        int64_t next;

        assert_int_equal(calendar_parse(expressions[i], &calendar, NULL), 0);
        assert_int_equal(calendar_next(&calendar, present, &next), -ENOENT);
    }
}

static void others_are_refused(void **state)
{
    static const char *const expressions[] = {
        "",           " ",           "often",      "24:00",       "12",        "12:60",
        "-1:00",      "12:00:60",    "*-13-01",    "*-0-1",       "*-*-32",    "1969-01-01",
        "2200-01-01", "5..3:00",     "*:0/0",      "1-2-3-4",     "Mon..",     "Mon,",
        "Funday",     "12:00 12:00", "12:00:00.5", "daily UTC x", "*-*-* Mon", "Mon Tue",
        "*:*:*:*",    "99999:00",    "1,:00",      "daily CET"};

    (void)state;
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        struct calendar calendar;
        struct error error = {0};

        if (calendar_parse(expressions[i], &calendar, &error) != -EINVAL || !*error.text)
            fail_msg("\"%s\" was accepted", expressions[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_systemd),
        cmocka_unit_test(what_clocks_show_twice_comes_once),
        cmocka_unit_test(what_never_comes_is_told),
        cmocka_unit_test(others_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
