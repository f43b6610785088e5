/* test_table_names.c: tables whose header leaves columns without a name, or gives one twice. */
#include "engine/data/table_columns.h"
#include "tests/support/table_file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_TABLE);
    table_file.config.csv.label_column = "y";
    return 0;
}

static void check_names(const struct dataset *dataset, const char *expected)
{
    char names[256] = "";

    for (int64_t i = 0; i < dataset->sample_elements; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
                 dataset->column_names[i]);
    assert_string_equal(names, expected);
}

static float feature(const struct dataset *dataset, int64_t row, int64_t column)
{
    return ((const float *)dataset->buffer)[row * dataset->sample_elements + column];
}

/* As programs write that end each line with delimiters. */
static void columns_without_a_name_are_left_out_where_they_are_empty(void **state)
{
    struct dataset *train = table_file_open("a,b,y,,\n1,2,0,,\n3,5,1,,\n", NULL), *test;

    (void)state;
    check_names(train, "a b");
    assert_string_equal(table_file.warnings,
                        "columns are left out: \"Unnamed: 0\" (empty), \"Unnamed: 1\" (empty)\n");
    test = table_file_open(",,y,b,a,,\n,,1,7,8,,\n", train);
    assert_true(feature(test, 0, 0) == 8 && feature(test, 0, 1) == 7);
    dataset_close(test);
    test = table_file_open("b,a,y\n7,8,0\n", train);
    assert_true(feature(test, 0, 0) == 8);
    dataset_close(test);
    dataset_close(train);
    table_file.config.csv.label_column = NULL;
    REFUSE_BESIDE(NULL, "a,b,y,,\n1,2,0,,\n3,5,1,,\n", "of 2, 2 have no value",
                  "the last column is predicted, unless label_column names another");
}

static void columns_without_a_name_are_used(void **state)
{
    struct dataset *train = table_file_open("a,,y\n1,2,0\n3,5,1\n", NULL), *test;

    (void)state;
    check_names(train, "a Unnamed: 0");
    assert_non_null(strstr(table_file.warnings, "column 2 is called \"Unnamed: 0\""));
    test = table_file_open(",y,a\n4,0,6\n", train);
    assert_true(feature(test, 0, 0) == 6 && feature(test, 0, 1) == 4);
    dataset_close(test);
    REFUSE_BESIDE(train, "a,y\n1,0\n", "lacks the column \"Unnamed: 0\"");
    /* such as the row numbers that pandas writes in front */
    REFUSE_BESIDE(train, ",a,,y\n0,1,2,0\n", "table.csv:1",
                  "columns 1 and 3 are both without a name");
    dataset_close(train);
    table_file.config.csv.label_column = "Unnamed: 0";
    train = table_file_open("a,\n1,0\n2,1\n", NULL);
    assert_string_equal(train->target_name, "Unnamed: 0");
    dataset_close(train);
}

static void names_may_repeat(void **state)
{
    struct dataset *train = table_file_open("a,a.1,a,y\n1,2,3,0\n4,5,7,1\n", NULL), *test;

    (void)state;
    check_names(train, "a a.1 a.2");
    assert_non_null(strstr(table_file.warnings, "column 3 is called \"a.2\""));
    test = table_file_open("y,a,a,a.1,b,b\n0,6,7,8,9,9\n", train);
    assert_true(feature(test, 0, 0) == 6 && feature(test, 0, 1) == 8 && feature(test, 0, 2) == 7);
    dataset_close(test);
    REFUSE_BESIDE(train, "a,a.1,y\n1,2,0\n", "lacks the column \"a.2\"");
    dataset_close(train);
    REFUSE_BESIDE(NULL, "a,y,y\n1,0,0\n2,1,1\n", "columns 1 and 2", "give the number");
    table_file.config.csv.label_column = "y.1";
    train = table_file_open("a,y,y\n1,0,0\n2,1,0\n3,1,1\n", NULL);
    assert_int_equal(train->labels[1], 0);
    dataset_close(train);
}

/* One of two columns of a name that the training table has once would be taken at random. */
static void a_name_that_repeats_in_another_table_alone_is_refused_if_it_is_used(void **state)
{
    struct dataset *train = table_file_open("a,b,y\n1,,0\n2,,1\n", NULL);

    (void)state;
    dataset_close(table_file_open("a,b,b,y,y2,y2\n1,2,3,0,1,1\n", train));
    REFUSE_BESIDE(train, "a,c,a,y\n1,2,3,0\n", "table.csv:1",
                  "columns 1 and 3 are both named \"a\"", "give them different names");
    table_file.config.unlabelled = true; /* what is to be predicted is not read */
    dataset_close(table_file_open("y,a,y\n1,2,3\n", train));
    dataset_close(train);
}

static void columns_may_be_called_first_and_last(void **state)
{
    const char *names[] = {"last", "first"};
    struct dataset *dataset;

    (void)state;
    table_file.config.csv.label_column = "last";
    REFUSE_BESIDE(NULL, "a,last,volume\n1,2,0\n3,5,1\n", "the column 1 is called \"last\"",
                  "label_column takes for the last one (2)");
    table_file.config.csv.label_column = "first";
    REFUSE_BESIDE(NULL, "a,first,volume\n1,2,0\n3,5,1\n", "the column 1 is called \"first\"");
    table_file.config.csv.label_column = NULL; /* the last one, if nobody says another */
    dataset = table_file_open("a,last,volume\n1,2,0\n3,5,1\n", NULL);
    assert_string_equal(dataset->target_name, "volume");
    dataset_close(dataset);
    table_file.config.csv.label_column = "last";
    dataset = table_file_open("first,b,last\n1,2,0\n3,5,1\n", NULL);
    check_names(dataset, "first b");
    dataset_close(dataset);
    /* of lists, which have no such words */
    table_file.config.csv.label_column = "y";
    table_file.config.table.ignored = names;
    table_file.config.table.ignored_count = 2;
    dataset = table_file_open("a,last,first,b,y\n1,2,0,1,0\n3,5,1,4,1\n", NULL);
    check_names(dataset, "a b");
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(columns_without_a_name_are_left_out_where_they_are_empty, reset),
        cmocka_unit_test_setup(columns_without_a_name_are_used, reset),
        cmocka_unit_test_setup(names_may_repeat, reset),
        cmocka_unit_test_setup(columns_may_be_called_first_and_last, reset),
        cmocka_unit_test_setup(a_name_that_repeats_in_another_table_alone_is_refused_if_it_is_used,
                               reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
