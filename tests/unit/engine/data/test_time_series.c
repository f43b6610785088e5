/* test_time_series: sliding windows over tables: their rows, the split, the constants, the
 * forecasts to beat, faults. */
#include "engine/data/gather.h"
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *path;
static struct dataset_config config;

static int reset(void **state)
{
    (void)state;
    config = (struct dataset_config){.format = DATASET_TIME_SERIES,
                                     .paths = &path,
                                     .path_count = 1,
                                     .target = DATASET_TARGET_VALUE,
                                     .series = {.input = 3, .horizon = 2, .stride = 1}};
    return 0;
}

static struct dataset *open_text(const char *text)
{
    path = data_file_write_text("series.csv", text);
    return data_open(&config, NULL);
}

/* Row i: a date, i, and 100 + i * i. */
static const char *squares(int rows)
{
    static char text[64 * 1024];
    size_t used = (size_t)sprintf(text, "date,place,value\n");

    for (int i = 0; i < rows; i++)
        used += (size_t)sprintf(text + used, "2020-01-%02d,%d,%d\n", i, i, 100 + i * i);
    return text;
}

#define REFUSE(text, ...)                                                             \
    do {                                                                              \
        path = data_file_write_text("series.csv", text);                              \
        data_expect_refusal(&config, NULL, -EINVAL, __VA_ARGS__, (const char *)NULL); \
    } while (0)

static void gather(const struct dataset *dataset, uint32_t index, float *sample, void *targets)
{
    struct dataset_normalisation none = {0};
    struct error error = {0};
    struct dataset_view all = dataset_view_all(dataset);

    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &none, &error), 0);
    assert_int_equal(dataset_gather(dataset, &none, &index, 1, sample, targets, &error), 0);
    dataset_normalisation_release(&none);
}

static void test_windows(void **state)
{
    float sample[6], targets[2];
    struct dataset *dataset = open_text(squares(10));

    (void)state;
    assert_int_equal(dataset->count, 6);
    assert_int_equal(dataset->rank, 2);
    assert_int_equal(dataset->shape[0], 3);
    assert_int_equal(dataset->shape[1], 2); /* all columns of numbers */
    assert_int_equal(dataset->target_width, 2);
    assert_string_equal(dataset->series.names[0], "place");
    assert_string_equal(dataset->series.names[2], "value");
    gather(dataset, 5, sample, targets);
    assert_memory_equal(sample, ((float[]){5, 125, 6, 136, 7, 149}), sizeof sample);
    assert_memory_equal(targets, ((float[]){164, 181}), sizeof targets);
    dataset_close(dataset);
}

static void test_columns_and_strides(void **state)
{
    const char *features[] = {"value"}, *targets[] = {"value", "place"};
    float sample[3], found[4];
    struct dataset *dataset;

    (void)state;
    config.series.features = features;
    config.series.feature_count = 1;
    config.series.targets = targets;
    config.series.target_count = 2;
    config.series.stride = 2;
    dataset = open_text(squares(10));
    assert_int_equal(dataset->count, 3);
    gather(dataset, 1, sample, found);
    assert_memory_equal(sample, ((float[]){104, 109, 116}), sizeof sample);
    assert_memory_equal(found, ((float[]){125, 5, 136, 6}), sizeof found);
    dataset_close(dataset);
}

/* Columns that nobody names are found in the test set by the names of the training set, also where
 * a checkpoint tells these. */
static void test_columns_in_another_order(void **state)
{
    float sample[6], targets[2], same[6], same_targets[2];
    struct dataset *train = open_text("when,a,b\nx,0,1\nx,2,3\nx,4,5\nx,6,7\nx,8,9\nx,10,11\n");
    struct dataset *described = data_describe(train);
    const char *text = "b,when,more,a\n1,x,7,0\n3,x,7,2\n5,x,7,4\n7,x,7,6\n9,x,7,8\n11,x,7,10\n";

    (void)state;
    path = data_file_write_text("other.csv", text);
    gather(train, 1, sample, targets);
    for (int i = 0; i < 2; i++) {
        struct dataset *test = data_open(&config, i ? described : train);

        gather(test, 1, same, same_targets);
        assert_memory_equal(sample, same, sizeof sample);
        assert_memory_equal(targets, same_targets, sizeof targets);
        dataset_close(test);
    }
    dataset_close(described);
    path = data_file_write_text("other.csv", "b,c\n1,2\n3,4\n5,6\n7,8\n9,10\n11,12\n");
    data_expect_refusal(&config, train, -EINVAL, "no column named \"a\"", (const char *)NULL);
    dataset_close(train);
}

/* "last" is the name of a column before it is the last one. */
static void test_column_called_last(void **state)
{
    const char *names[] = {"last"};
    float sample[6], found[2];
    struct dataset *dataset, *described, *test;
    const char *other = "volume,last\n9,0\n9,2\n9,4\n9,6\n9,8\n9,10\n";

    (void)state;
    config.series.targets = names;
    config.series.target_count = 1;
    dataset = open_text("last,volume\n0,9\n2,9\n4,9\n6,9\n8,9\n10,9\n");
    gather(dataset, 0, sample, found);
    assert_memory_equal(found, ((float[]){6, 8}), sizeof found);
    described = data_describe(dataset);
    path = data_file_write_text("other.csv", other);
    test = data_open(&config, described);
    gather(test, 0, sample, found);
    assert_memory_equal(sample, ((float[]){0, 9, 2, 9, 4, 9}), sizeof sample);
    assert_memory_equal(found, ((float[]){6, 8}), sizeof found);
    dataset_close(test);
    dataset_close(described);
    dataset_close(dataset);
}

/* Columns of text are left out of the features; a column of numbers is not, because of its first
 * cell alone. */
static void test_first_row(void **state)
{
    static const char *const missing[] = {"", "NA", "nan", "1_000", "0x1", "-"};
    const char *features[] = {"b"}, *paths[2];
    struct dataset *dataset, *test;
    char text[200];

    (void)state;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        snprintf(text, sizeof text, "a,b\n%s,2\n,3\n4,5\n5,6\n7,8\n9,9\n", missing[i]);
        REFUSE(text, "series.csv:2, column 1 (a)", missing[i], "line 4 has 4 there", "features");
    }
    config.series.features = features;
    config.series.feature_count = 1;
    dataset = open_text(text);
    assert_int_equal(dataset->shape[1], 1);
    dataset_close(dataset);
    config.series.features = NULL;
    dataset = open_text("a,b\nx,2\n,3\nNA,5\n1.2.3,6\n7 o'clock,8\n9h,9\n");
    assert_int_equal(dataset->shape[1], 1);
    dataset_close(dataset);
    paths[0] = data_file_write_text("series.csv", "a,b\n,2\n,3\n");
    paths[1] = data_file_write_text("second.csv", "a,b\n,2\n8,3\n");
    config.paths = paths;
    config.path_count = 2;
    data_expect_refusal(&config, NULL, -EINVAL, "series.csv:2, column 1 (a)", "line 3 of ",
                        "second.csv has 8 there", (const char *)NULL);
    config.paths = &path;
    config.path_count = 1;

    dataset = open_text("c,a,b\nx,1,2\nx,2,3\nx,4,5\nx,5,6\nx,7,8\nx,9,9\n");
    path = data_file_write_text("other.csv", "b,a\n2,\n3,1\n5,1\n6,1\n8,1\n9,1\n");
    data_expect_refusal(&config, dataset, -EINVAL, "other.csv:2, column 2 (a)", "empty",
                        (const char *)NULL);
    path = data_file_write_text("other.csv", "c,a,b\nx,1,2\n1,2,3\nx,4,5\nx,5,6\nx,7,8\n");
    test = data_open(&config, dataset);
    assert_int_equal(test->shape[1], 2);
    dataset_close(test);
    dataset_close(dataset);
}

static void test_newest_first(void **state)
{
    float sample[3], targets[2];
    struct dataset *dataset;

    (void)state;
    config.series.newest_first = true;
    dataset = open_text("6\n5\n4\n3\n2\n1\n");
    assert_int_equal(dataset->count, 2);
    gather(dataset, 1, sample, targets);
    assert_memory_equal(sample, ((float[]){2, 3, 4}), sizeof sample);
    assert_memory_equal(targets, ((float[]){5, 6}), sizeof targets);
    dataset_close(dataset);
}

/* No row that is predicted for validation or test is held or predicted for training; samples may
 * begin before the part's first row. */
static void test_split_without_leak(void **state)
{
    (void)state;
    for (int stride = 1; stride <= 3; stride++) {
        struct dataset_split split;
        struct error error = {0};
        struct dataset *dataset, *test;
        float sample[6], targets[2], lowest = INFINITY, highest = 0;

        config.series.stride = stride;
        config.series.rows[0] = 0;
        config.series.rows[1] = 40;
        dataset = open_text(squares(50));
        config.series.rows[0] = 0.8;
        config.series.rows[1] = 1;
        test = data_open(&config, dataset);
        assert_int_equal(dataset_split(dataset,
                                       &(struct dataset_split_config){.fraction = 0.25, .seed = 1},
                                       &split, &error),
                         0);
        assert_int_equal(split.train.count, (30 - 5) / stride + 1);
        for (int64_t i = 0; i < split.train.count; i++) {
            gather(dataset, (uint32_t)dataset_view_index(&split.train, i), sample, targets);
            highest = fmaxf(highest, targets[1]);
        }
        assert_true(highest <= 100 + 29 * 29);
        for (int64_t i = 0; i < split.validation.count; i++) {
            gather(dataset, (uint32_t)dataset_view_index(&split.validation, i), sample, targets);
            assert_true(targets[0] >= 100 + 30 * 30 && targets[1] <= 100 + 39 * 39);
        }
        for (uint32_t i = 0; i < test->count; i++) {
            gather(test, i, sample, targets);
            lowest = fminf(lowest, targets[0]);
        }
        assert_true(lowest == 100 + 40 * 40); /* its sample holds rows 37 to 39 */
        dataset_split_release(&split);
        dataset_close(test);
        dataset_close(dataset);
    }
}

static void test_constants(void **state)
{
    struct dataset_normalisation measured = {0}, read = {0};
    struct dataset_split split;
    struct error error = {0};
    struct dataset *dataset;
    float sample[6], targets[2];

    (void)state;
    dataset = open_text(squares(20));
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.5, .seed = 1},
                                   &split, &error),
                     0);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &split.train, &measured, &error),
        0);
    assert_int_equal(measured.groups, 2);
    assert_true(measured.mean[0] == 4.5f); /* rows 0 to 9 alone */
    assert_true(fabsf(measured.factor[0] - 1 / sqrtf(8.25f)) < 1e-6f);
    assert_int_equal(measured.target_groups, 1);
    assert_true(measured.target_mean[0] == 128.5f);
    assert_int_equal(dataset_normalise_targets(&measured, dataset, NULL), 0);
    assert_int_equal(dataset_gather(dataset, &measured, &(uint32_t){2}, 1, sample, targets, &error),
                     0);
    assert_true(sample[2] == (3 - measured.mean[0]) * measured.factor[0]);
    assert_true(targets[1] == (136 - measured.target_mean[0]) * measured.target_factor[0]);
    char *text = dataset_normalisation_format(&measured);
    assert_int_equal(dataset_normalisation_parse(text, dataset, &read, &error), 0);
    assert_memory_equal(read.mean, measured.mean, 2 * sizeof(float));
    assert_memory_equal(read.target_factor, measured.target_factor, sizeof(float));
    dataset_normalisation_release(&read);
    text[strlen(text) - 1] = ',';
    assert_int_equal(dataset_normalisation_parse(text, dataset, &read, &error), -EINVAL);
    free(text);
    dataset_normalisation_release(&measured);
    dataset_split_release(&split);
    dataset_close(dataset);
}

static void test_classes(void **state)
{
    const char *targets[] = {"blue"}, *both[] = {"red", "blue"};
    float sample[6];
    int32_t label, labels[2];
    struct error error = {0};
    struct dataset *dataset;

    (void)state;
    config.target = DATASET_TARGET_CLASS;
    config.series.horizon = 1;
    config.series.targets = targets;
    config.series.target_count = 1;
    config.series.first_label = 1;
    dataset = open_text("red,blue\n7,1\n8,16\n9,2\n1,3\n2,4\n");
    assert_int_equal(dataset->classes, 16);
    assert_int_equal(dataset->count, 2);
    gather(dataset, 1, sample, &label);
    assert_int_equal(label, 3);
    dataset_close(dataset);
    config.series.targets = both;
    config.series.target_count = 2;
    dataset = open_text("red,blue\n7,1\n8,16\n9,2\n1,3\n2,4\n");
    gather(dataset, 1, sample, labels);
    assert_memory_equal(labels, ((int32_t[]){1, 3}), sizeof labels);
    assert_int_equal(gather_labels(dataset, 1, labels, &error), 0);
    assert_memory_equal(labels, ((int32_t[]){1, 3}), sizeof labels);
    dataset_close(dataset);
    REFUSE("red,blue\n7,1\n8,0\n9,2\n1,3\n2,4\n", ":3, column 2", "0 is no class", "first_label");
}

static void test_baselines(void **state)
{
    struct series_baselines baselines;
    struct dataset_view view;
    struct dataset *dataset;

    (void)state;
    config.series.input = 4;
    config.series.horizon = 3;
    dataset = open_text("0\n10\n0\n10\n1\n11\n1\n11\n");
    view = dataset_view_all(dataset);
    assert_int_equal(view.count, 2);
    /* of 10: 1, 11, 1; of 1: 11, 1, 11 */
    baselines = series_baselines(&view, 2);
    assert_true(fabs(baselines.last_mae - (9 + 1 + 9 + 10 + 0 + 10) / 6.0) < 1e-6);
    assert_true(fabs(baselines.last_mse - (81 + 1 + 81 + 100 + 0 + 100) / 6.0) < 1e-6);
    /* of 0, 10, 0; of 10, 1, 10 */
    assert_true(fabs(baselines.season_mae - (1 + 1 + 1 + 1 + 0 + 1) / 6.0) < 1e-6);
    assert_true(isnan(series_baselines(&view, 5).season_mse));
    assert_int_equal(dataset->series.past, 0);
    assert_true(isnan(series_baselines(&view, 0).season_mse));
    assert_true(*series_past(dataset, 1, 1) == 1);
    assert_null(series_past(dataset, 0, 5));
    dataset_close(dataset);
}

/* A season may be longer than a sample; it is known from the rows before. */
static void test_long_season(void **state)
{
    struct dataset_normalisation constants = {0};
    struct series_baselines baselines;
    struct dataset_view view;
    struct dataset *dataset, *train;
    struct error error = {0};
    float sample[4], targets[2];

    (void)state;
    config.series.input = 2;
    config.series.season = 5;
    train = open_text(squares(30));
    view = dataset_view_all(train);
    assert_int_equal(train->series.past, 0); /* nothing is known before row 0 */
    assert_true(isnan(series_baselines(&view, 5).season_mse));
    config.series.rows[0] = 20;
    config.series.rows[1] = 30;
    dataset = open_text(squares(30));
    view = dataset_view_all(dataset);
    assert_int_equal(dataset->count, 9);
    gather(dataset, 0, sample, targets);
    assert_memory_equal(sample, ((float[]){18, 424, 19, 461}), sizeof sample);
    assert_memory_equal(targets, ((float[]){500, 541}), sizeof targets);
    assert_true(*series_past(dataset, 0, 5) == 100 + 15 * 15);
    assert_null(series_past(dataset, 0, 6));
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &view, &constants, &error), 0);
    assert_true(fabsf(constants.target_mean[0] - (100 + 6770 / 12.0f)) <
                1e-2f); /* of rows 18 to 29 alone */
    baselines = series_baselines(&view, 5);
    assert_false(isnan(baselines.season_mae));
    assert_int_equal(dataset_normalise_targets(&constants, dataset, NULL), 0);
    assert_true(fabs(series_baselines(&view, 5).season_mae -
                     baselines.season_mae * (double)constants.target_factor[0]) < 1e-5);
    dataset_normalisation_release(&constants);
    dataset_close(dataset);
    dataset_close(train);
}

/* Rows of any file that is trained on are no test. */
static void test_overlap_of_files(void **state)
{
    const char *both[] = {data_file_write_text("p1.csv", "0\n1\n2\n3\n4\n5\n"),
                          data_file_write_text("p2.csv", "6\n7\n8\n9\n10\n11\n")};
    const char *turned[] = {both[1], both[0]};
    struct dataset *train, *test;

    (void)state;
    config.series.input = config.series.horizon = 1;
    config.paths = both;
    config.path_count = 2;
    train = data_open(&config, NULL);
    config.paths = turned;
    data_expect_refusal(&config, train, -EINVAL, "p2.csv: rows 0 to 5 are for the test",
                        "rows 0 to 5 are trained on", "other files", (const char *)NULL);
    config.path_count = 1;
    data_expect_refusal(&config, train, -EINVAL, "p2.csv: rows 0 to 5 ", (const char *)NULL);
    dataset_close(train);
    config.series.rows[1] = 8; /* of the training set: two rows of p2.csv */
    config.paths = both;
    config.path_count = 2;
    train = data_open(&config, NULL);
    config.paths = turned;
    config.path_count = 1;
    config.series.rows[0] = 1;
    config.series.rows[1] = 6;
    data_expect_refusal(&config, train, -EINVAL, "p2.csv: rows 1 to 5 ", "rows 0 to 1 are trained",
                        (const char *)NULL);
    config.series.rows[0] = 2;
    test = data_open(&config, train);
    dataset_close(test);
    config.series.newest_first = true; /* rows 0 to 3 of the file */
    data_expect_refusal(&config, train, -EINVAL, "p2.csv: rows 0 to 3 ", (const char *)NULL);
    config.series.rows[0] = 0;
    config.series.rows[1] = 4; /* rows 2 to 5 */
    test = data_open(&config, train);
    dataset_close(test);
    dataset_close(train);
}

static void test_faults(void **state)
{
    const char *columns[] = {"valu"};
    struct dataset *dataset;

    (void)state;
    REFUSE(squares(4), "series.csv: 4 rows", "sample of 3 rows", "2 after", "smaller window");
    REFUSE("a,b\n1,2\n3\n4,5\n", "series.csv:3", "1 column, but the first row 2");
    REFUSE("a,b\n1,2\n3,\n4,5\n", "series.csv:3, column 2 (b)", "empty");
    REFUSE("a,b\n1,2\nnan,3\n4,5\n", "series.csv:3, column 1 (a)", "\"nan\"", "no float32");
    REFUSE("a,b\n1,2\n1e99,3\n4,5\n", "series.csv:3, column 1 (a)", "\"1e99\"");
    REFUSE("a,b\n", "no row of numbers");
    config.series.targets = columns;
    config.series.target_count = 1;
    REFUSE(squares(10), "no column named \"valu\"", "\"value\"?");
    config.series.targets = NULL;
    config.series.rows[1] = 11;
    REFUSE(squares(10), "[0, 11]", "has 10 rows");
    config.series.rows[0] = 5.5;
    REFUSE(squares(20), "[5.5, 11]", "two ascending shares");
    config.series.rows[0] = 0;
    config.series.rows[1] = 8;
    dataset = open_text(squares(20));
    config.series.rows[0] = 7;
    config.series.rows[1] = 20;
    data_expect_refusal(&config, dataset, -EINVAL, "rows 7 to 19 are for the test",
                        "rows 0 to 7 are trained on", (const char *)NULL);
    const char *same = data_file_path("other-name.csv"), *own = path;
    unlink(same);
    assert_int_equal(link(own, same), 0);
    path = same;
    data_expect_refusal(&config, dataset, -EINVAL, "rows 7 to 19 are for the test",
                        (const char *)NULL);
    unlink(same);
    path = own;
    dataset_close(dataset);
    config.series.rows[0] = 0;
    config.target = DATASET_TARGET_CLASS;
    REFUSE("a,b\n1,2\n3,2.5\n4,5\n", "series.csv:3, column 2", "2.5 is no class", "mse");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_windows, reset),
        cmocka_unit_test_setup(test_columns_and_strides, reset),
        cmocka_unit_test_setup(test_columns_in_another_order, reset),
        cmocka_unit_test_setup(test_column_called_last, reset),
        cmocka_unit_test_setup(test_first_row, reset),
        cmocka_unit_test_setup(test_newest_first, reset),
        cmocka_unit_test_setup(test_split_without_leak, reset),
        cmocka_unit_test_setup(test_constants, reset),
        cmocka_unit_test_setup(test_classes, reset),
        cmocka_unit_test_setup(test_baselines, reset),
        cmocka_unit_test_setup(test_long_season, reset),
        cmocka_unit_test_setup(test_overlap_of_files, reset),
        cmocka_unit_test_setup(test_faults, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
