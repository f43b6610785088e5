/* test_table_dates.c: which texts are dates, and which moments; columns of dates. */
#include "engine/data/table_dates.h"
#include "tests/support/table_file.h"

#include <errno.h>
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

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_TABLE);
    return 0;
}

/* Rows are ordered by dates that are read as those of features are. */
static void dates_order_rows_as_they_are_read(void **state)
{
    struct dataset *dataset;

    (void)state;
    table_file.config.table.split_column = "d";
    table_file.config.table.split_keys = DATASET_KEYS_ORDER;
    dataset = table_file_open("d,x,y\n01/02/2026,1,0\n01/03/2026,2,1\n13/01/2026,3,0\n", NULL);
    assert_int_equal(dataset->sample_elements, 1);
    assert_true(dataset->split_keys[1] - dataset->split_keys[0] == 28);
    assert_true(dataset->split_keys[2] - dataset->split_keys[0] == -19);
    assert_null(strstr(table_file.warnings, "read as"));
    dataset_close(dataset);
    dataset = table_file_open("d,x,y\n01/02/2026,1,0\n01/03/2026,2,1\n", NULL);
    assert_true(dataset->split_keys[1] - dataset->split_keys[0] == 1);
    assert_non_null(strstr(table_file.warnings, "the column d, such as 01/02/2026, are read as"));
    dataset_close(dataset);
    table_file.config.table.day_first = true;
    dataset = table_file_open("d,x,y\n01/02/2026,1,0\n01/03/2026,2,1\n", NULL);
    assert_true(dataset->split_keys[1] - dataset->split_keys[0] == 28);
    dataset_close(dataset);
    REFUSE("d,x,y\n13/02/2026,1,0\n02/13/2026,2,1\n14/02/2026,2,1\n", "table.csv:3",
           "\"02/13/2026\"", "is no date, as those in front of it are");
}

static void dates_that_do_not_exist_are_named(void **state)
{
    (void)state;
    REFUSE("d,y\n2026-02-28,0\n2026-02-30,1\n2026-03-01,1\n", "table.csv:3", "\"2026-02-30\"",
           "2 of the 3 cells of the column d");
    REFUSE("d,y\n0000-00-00,0\n2026-02-28,1\n2026-03-01,1\n", "table.csv:2", "\"0000-00-00\"");
    REFUSE("d,y\n28/02/2026,0\n27/02/2026,1\n02/27/2026,1\n", "table.csv:4", "day/month/year");
    dataset_close(
        table_file_open("d,y\nlate,0\n2026-02-28,1\nsoon,1\nlate,1\nsoon,0\nlate,1\n", NULL));
}

/* However many other texts stand above them. */
static void dates_are_found_below_other_texts(void **state)
{
    char text[2048] = "d,y\n";

    (void)state;
    for (int i = 0; i < 30; i++)
        strcat(text, i % 2 ? "unknown,1\n" : "unknown,0\n");
    for (int i = 0; i < 40; i++)
        strcat(text, i % 2 ? "2026-02-28,1\n" : "1 Mar 2026,0\n");
    REFUSE(text, "table.csv:2", "\"unknown\" is no date", "40 of the 70 cells of the column d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_days_since_2000),
        cmocka_unit_test(other_texts_are_no_dates),
        cmocka_unit_test_setup(dates_order_rows_as_they_are_read, reset),
        cmocka_unit_test_setup(dates_that_do_not_exist_are_named, reset),
        cmocka_unit_test_setup(dates_are_found_below_other_texts, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
