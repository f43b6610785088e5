/* test_table_dates.c: which texts are dates, and which moments. */
#include "engine/data/table_dates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void dates_are_days_since_2000(void **state)
{
    struct table_date date;

    (void)state;
#define DATE(text, order, expected)                                  \
    assert_true(table_date_parse(text, strlen(text), order, &date)); \
    if (fabs(date.days - (expected)) > 1e-9)                         \
    fail_msg("%s is day %.9f", text, date.days)
    DATE("2026-11-23T12:00:00Z", TABLE_DATE_MONTH_FIRST, 9823.5);
    DATE("2026-11-23 12:30+01:30", TABLE_DATE_MONTH_FIRST, 9823 + 11 / 24.0);
    DATE("23.11.2026", TABLE_DATE_MONTH_FIRST, 9823);
    DATE("11/23/2026 0:00:00.5", TABLE_DATE_MONTH_FIRST, 9823 + 0.5 / 86400);
    DATE("23/11/2026", TABLE_DATE_DAY_FIRST, 9823);
    DATE("2000-02-29", TABLE_DATE_DAY_FIRST, 59);
    DATE("23 Nov 2026", TABLE_DATE_MONTH_FIRST, 9823);
    DATE("23-NOV-2026", TABLE_DATE_MONTH_FIRST, 9823);
    DATE("2026-Nov-23", TABLE_DATE_MONTH_FIRST, 9823);
    DATE("November 23, 2026", TABLE_DATE_MONTH_FIRST, 9823);
    DATE("Mon, 23 Nov 2026 12:00:00 GMT", TABLE_DATE_MONTH_FIRST, 9823.5);
    DATE("2026-11-23 12:00:00 UTC", TABLE_DATE_MONTH_FIRST, 9823.5);
    DATE("11/23/2026, 6:00:00\u202fPM", TABLE_DATE_MONTH_FIRST, 9823.75);
    DATE("11/23/2026 12:30 am", TABLE_DATE_MONTH_FIRST, 9823 + 0.5 / 24);
    DATE("1. May 2026 3 p.m.", TABLE_DATE_MONTH_FIRST, 9617 + 15 / 24.0);
#undef DATE
}

static void other_texts_are_no_dates(void **state)
{
    static const char *const wrong[] = {"",
                                        "2026",
                                        "2026-13-01",
                                        "2026-02-29",
                                        "23/11/2026",
                                        "1.2.26",
                                        "2026-11",
                                        "2026-11-23T",
                                        "2026-1-1x",
                                        "1900-02-29",
                                        "12:00",
                                        "2026-01-01 25:00",
                                        "1 Jan",
                                        "31 Feb 2026",
                                        "1 Jan 26",
                                        "Jan-1 2026",
                                        "1-Jan 2026",
                                        "1/1/2026 13:00 PM",
                                        "1 May1 2026",
                                        "Maybe 1 2026",
                                        "1/1/2026 3 PM PM",
                                        "1/1/2026 3",
                                        "Fri 1"};
    struct table_date date;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (table_date_parse(wrong[i], strlen(wrong[i]), TABLE_DATE_MONTH_FIRST, &date))
            fail_msg("\"%s\" was taken for a date", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_days_since_2000),
        cmocka_unit_test(other_texts_are_no_dates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
