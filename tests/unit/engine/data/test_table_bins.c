/* test_table_bins.c: columns of numbers as piecewise linear features. */
#include "engine/data/description.h"
#include "engine/data/table_bins.h"
#include "engine/data/table_columns.h"
#include "tests/support/table_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int digits[] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                             6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7};
enum { DIGITS = sizeof digits / sizeof *digits };

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_TABLE);
    return 0;
}

static void check_edges(int bins, int repeats, const double *expected, int32_t expected_count)
{
    struct table_sample sample = {0};
    struct error error;
    double *edges;
    int32_t count;

    for (int i = 0; i < repeats; i++)
        for (int d = 0; d < DIGITS; d++)
            assert_int_equal(table_sample_add(&sample, digits[d], &error), 0);
    assert_int_equal(table_bins_find(&sample, bins, &edges, &count, &error), 0);
    assert_int_equal(count, expected_count);
    for (int32_t i = 0; i < count; i++)
        assert_true(edges[i] == expected[i]);
    free(edges);
    table_sample_release(&sample);
}

/* numpy.unique(numpy.quantile(digits, numpy.linspace(0, 1, bins + 1))) */
static void edges_are_quantiles(void **state)
{
    static const double two[] = {0, 4.5, 9}, four[] = {0, 3, 4.5, 7.25, 9};
    /* of more numbers than are kept, which return with a period */
    static const double many[] = {0, 4, 9};

    (void)state;
    check_edges(2, 1, two, 3);
    check_edges(4, 1, four, 5);
    check_edges(8, 1, four, 5); /* ten numbers for each bin at least */
    check_edges(2, 1001, many, 3);
}

static void few_different_numbers_have_no_bins(void **state)
{
    struct table_sample sample = {0};
    struct error error;
    double *edges = (double *)&sample;
    int32_t count = 7;

    (void)state;
    assert_int_equal(table_bins_find(&sample, 8, &edges, &count, &error), 0);
    assert_true(!edges && count == 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(table_sample_add(&sample, i % 2, &error), 0);
    assert_int_equal(table_bins_find(&sample, 8, &edges, &count, &error), 0);
    assert_true(!edges && count == 0);
    table_sample_release(&sample);
}

static void check_features(double value, float first, float second, float third)
{
    static const double edges[] = {-1, 1, 2, 6};
    float features[3];

    table_bins_encode(edges, 4, value, features);
    if (fabsf(features[0] - first) + fabsf(features[1] - second) + fabsf(features[2] - third) >
        1e-6f)
        fail_msg("%g becomes %g, %g, %g", value, (double)features[0], (double)features[1],
                 (double)features[2]);
}

static void a_number_fills_the_bins_below_it(void **state)
{
    (void)state;
    check_features(0, 0.5f, 0, 0);
    check_features(1, 1, 0, 0);
    check_features(1.25, 1, 0.25f, 0);
    check_features(3, 1, 1, 0.25f);
    check_features(-2, -0.5f, 0, 0);
    check_features(10, 1, 1, 2);
    check_features(-1e30, -3, 0, 0); /* and no further */
    check_features(1e30, 1, 1, 4);
}

/* The table of digits with a column of two numbers, and an empty cell if so wanted. */
static struct dataset *open_digits(bool missing, const struct dataset *reference)
{
    char text[1024] = "digit,two,y\n";
    size_t used = strlen(text);

    for (int i = 0; i < DIGITS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%d,%d,%s\n", digits[i], i % 2,
                                 i % 3 ? "u" : "v");
    if (missing)
        snprintf(text + used, sizeof text - used, ",1,u\n");
    return table_file_open(text, reference);
}

static void columns_have_bins_where_they_are_wanted(void **state)
{
    struct dataset *dataset;
    const float *row;

    (void)state;
    dataset = open_digits(false, NULL);
    assert_int_equal(dataset->sample_elements, 2); /* no bins unless they are asked for */
    dataset_close(dataset);
    table_file.config.table.bins = 4;
    dataset = open_digits(true, NULL);
    assert_int_equal(dataset->sample_elements, 1 + 4 + 1 + 1);
    assert_string_equal(dataset->column_names[0], "digit");
    assert_string_equal(dataset->column_names[1], "digit:bin_1");
    assert_string_equal(dataset->column_names[4], "digit:bin_4");
    assert_string_equal(dataset->column_names[5], "digit is missing");
    assert_string_equal(dataset->column_names[6], "two");
    row = dataset->buffer; /* 3 */
    assert_true(row[0] == 3 && row[1] == 1 && row[2] == 0 && row[3] == 0 && row[5] == 0);
    row += (DIGITS - 1) * dataset->sample_elements; /* 7 */
    assert_true(row[0] == 7 && row[1] == 1 && row[2] == 1 && row[3] > 0.9f && row[4] == 0);
    row += dataset->sample_elements; /* an empty cell is the mean */
    assert_true(row[0] > 4.8f && row[0] < 4.9f && row[2] == 1 && row[3] > 0 && row[5] == 1);
    dataset_close(dataset);
}

/* Other tables, also those that a checkpoint's model predicts, have the bins of the training
 * table. */
static void bins_are_kept(void **state)
{
    struct dataset *train, *read, *test;
    struct error error;
    char *text;

    (void)state;
    table_file.config.table.bins = 4;
    train = open_digits(false, NULL);
    text = dataset_description_format(train);
    assert_int_equal(dataset_description_parse(text, &read, &error), 0);
    table_file.config.table.bins = 0; /* what counts is what the model was trained with */
    test = table_file_open("digit,two,y\n8,0,u\n", read);
    assert_int_equal(test->sample_elements, 6);
    assert_true(((const float *)test->buffer)[4] > 0.42f);
    assert_true(((const float *)test->buffer)[4] < 0.43f);
    dataset_close(test);
    dataset_close(read);
    dataset_close(train);
    free(text);
}

static void damaged_bins_are_refused(void **state)
{
    struct dataset *train;
    char *text;

    (void)state;
    table_file.config.table.bins = 2;
    train = open_digits(false, NULL);
    text = dataset_description_format(train);
    table_file_check_damaged(text, "bins 0x0p+0 0x1.2p+2 0x1.2p+3", "bins 0x1p+0 0x1.2p+2 0x1p+0");
    table_file_check_damaged(text, "bins 0x0p+0 0x1.2p+2 0x1.2p+3", "bins 0x0p+0 0x1.2p+2");
    table_file_check_damaged(text, "bins 0x0p+0 0x1.2p+2 0x1.2p+3", "bins 0x0p+0 0x1.2p+2 inf");
    table_file_check_damaged(text, "bins 0x0p+0 0x1.2p+2 0x1.2p+3", "bins");
    table_file_check_damaged(text, "bins 0x0p+0 0x1.2p+2 0x1.2p+3\n", "");
    table_file_check_damaged(text, "table 3", "bins 0x0p+0 0x1.2p+2 0x1.2p+3\ntable 3");
    dataset_close(train);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_quantiles),
        cmocka_unit_test(few_different_numbers_have_no_bins),
        cmocka_unit_test(a_number_fills_the_bins_below_it),
        cmocka_unit_test_setup(columns_have_bins_where_they_are_wanted, reset),
        cmocka_unit_test_setup(bins_are_kept, reset),
        cmocka_unit_test_setup(damaged_bins_are_refused, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
