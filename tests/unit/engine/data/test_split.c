/* test_split.c: the rules by which samples validate: shares of classes, order, groups, folds. */
#include "engine/data/gather.h"
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 1003, CLASSES = 7, GROUPS = 23 };

static const char *path;
static struct dataset_config config;
static struct dataset_split split;
static struct error error;

static int reset(void **state)
{
    (void)state;
    config = (struct dataset_config){.format = DATASET_TABLE, .paths = &path, .path_count = 1};
    config.csv.label_column = "label";
    split = (struct dataset_split){0};
    error = (struct error){0};
    return 0;
}

/* Classes and groups of very different sizes. */
static int32_t class_of(int64_t row)
{
    return row % 97 == 0 ? 6 : (int32_t)(row * row % 6);
}

static int group_of(int64_t row)
{
    int group = (int)(row * 31 % 211);

    return group < GROUPS ? group : 0;
}

/* "label;group;when;x": the rows' order in time is 0, 7, 14, … modulo their number. */
static struct dataset *rows_open(void)
{
    char *text = malloc(64 * ROWS), *end = text + sprintf(text, "label;group;when;x\n");
    struct dataset *dataset;

    for (int64_t i = 0; i < ROWS; i++) {
        int64_t when = i * 7 % ROWS;

        end +=
            sprintf(end, "%d;g%d;2026-01-%02d %02d:%02d;%g\n", class_of(i), group_of(i),
                    (int)(when / 600) + 1, (int)(when / 60 % 10), (int)(when % 60), (double)i / 8);
    }
    path = data_file_write_text("rows.csv", text);
    dataset = data_open(&config, NULL);
    free(text);
    return dataset;
}

static void make_split(const struct dataset *dataset, struct dataset_split_config how)
{
    dataset_split_release(&split);
    if (dataset_split(dataset, &how, &split, &error) < 0)
        fail_msg("%s", error.text);
}

static void expect_refusal(const struct dataset *dataset, struct dataset_split_config how,
                           const char *words)
{
    dataset_split_release(&split);
    assert_int_equal(dataset_split(dataset, &how, &split, &error), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

/* How often each row is in the part. */
static void count_rows(const struct dataset_view *view, int counts[ROWS])
{
    for (int64_t i = 0; i < view->count; i++)
        counts[dataset_view_index(view, i)]++;
}

static void test_stratified(void **state)
{
    struct dataset *dataset = rows_open();
    int64_t classes[CLASSES] = {0};

    (void)state;
    for (int64_t i = 0; i < ROWS; i++)
        classes[class_of(i)]++;
    for (int percent = 1; percent < 90; percent += 11) {
        int64_t chosen[CLASSES] = {0};
        int counts[ROWS] = {0};

        make_split(dataset, (struct dataset_split_config){.fraction = percent / 100.0,
                                                          .seed = 5,
                                                          .rule = DATASET_SPLIT_STRATIFIED});
        assert_int_equal(split.validation.count, (ROWS * percent + 50) / 100);
        count_rows(&split.train, counts);
        count_rows(&split.validation, counts);
        for (int64_t i = 0; i < ROWS; i++)
            assert_int_equal(counts[i], 1);
        for (int64_t i = 0; i < split.validation.count; i++)
            chosen[class_of(dataset_view_index(&split.validation, i))]++;
        for (int class = 0; class < CLASSES; class ++) {
            double share = (double)classes[class] * percent / 100;

            assert_true((double)chosen[class] > share - 1.01);
            assert_true((double)chosen[class] < share + 1.01);
        }
    }
    dataset_split_release(&split);
    dataset_close(dataset);
}

/* Each sample validates once, and classes have their shares in each fold. */
static void test_folds(void **state)
{
    static const enum dataset_split_rule rules[] = {DATASET_SPLIT_RANDOM, DATASET_SPLIT_STRATIFIED,
                                                    DATASET_SPLIT_GROUP};

    (void)state;
    config.table.split_column = "group";
    config.table.split_keys = DATASET_KEYS_GROUPS;
    struct dataset *dataset = rows_open();

    for (size_t r = 0; r < 3; r++) {
        int validates[ROWS] = {0}, group_fold[GROUPS];

        memset(group_fold, 0xff, sizeof group_fold);
        for (int fold = 0; fold < 5; fold++) {
            int counts[ROWS] = {0};

            make_split(dataset, (struct dataset_split_config){
                                    .seed = 5, .rule = rules[r], .folds = 5, .fold = fold});
            count_rows(&split.validation, validates);
            count_rows(&split.validation, counts);
            count_rows(&split.train, counts);
            for (int64_t i = 0; i < ROWS; i++)
                assert_int_equal(counts[i], 1);
            if (rules[r] != DATASET_SPLIT_GROUP)
                assert_in_range(split.validation.count, ROWS / 5, ROWS / 5 + 1);
            for (int64_t i = 0; i < split.validation.count && rules[r] == DATASET_SPLIT_GROUP;
                 i++) {
                int *known = &group_fold[group_of(dataset_view_index(&split.validation, i))];

                assert_true(*known == -1 || *known == fold);
                *known = fold;
            }
        }
        for (int64_t i = 0; i < ROWS; i++)
            assert_int_equal(validates[i], 1);
    }
    dataset_split_release(&split);
    dataset_close(dataset);
}

/* Each sample is in one of three parts, and a fold is the test. */
static void test_hold_out(void **state)
{
    (void)state;
    struct dataset *dataset = rows_open();
    int counts[ROWS] = {0}, tested[ROWS] = {0}, fold[ROWS] = {0}, again[ROWS] = {0};
    const struct dataset_split_config how = {
        .seed = 5, .rule = DATASET_SPLIT_STRATIFIED, .folds = 5, .fold = 2};

    make_split(dataset, how);
    count_rows(&split.validation, fold);
    if (dataset_split_hold_out(&split, 0.1, 5, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(split.train.count + split.validation.count + split.test.count, ROWS);
    assert_int_equal(split.validation.count, 80); /* of 802 or 803 */
    count_rows(&split.test, tested);
    assert_memory_equal(tested, fold, sizeof fold);
    count_rows(&split.train, counts);
    count_rows(&split.validation, counts);
    count_rows(&split.test, counts);
    for (int64_t i = 0; i < ROWS; i++)
        assert_int_equal(counts[i], 1);
    for (int64_t i = 1; i < split.validation.count; i++)
        assert_true(split.validation.indices[i] > split.validation.indices[i - 1]);
    memset(counts, 0, sizeof counts);
    count_rows(&split.validation, counts);
    make_split(dataset, how);
    assert_int_equal(dataset_split_hold_out(&split, 0.1, 6, &error), 0);
    count_rows(&split.validation, again);
    assert_memory_not_equal(again, counts, sizeof counts);
    dataset_split_release(&split);
    split.train.count = 1;
    assert_int_equal(dataset_split_hold_out(&split, 0.1, 6, &error), -EINVAL);
    dataset_close(dataset);
}

static void test_order(void **state)
{
    (void)state;
    config.table.split_column = "when";
    struct dataset *dataset = rows_open();

    make_split(dataset,
               (struct dataset_split_config){.fraction = 0.25, .rule = DATASET_SPLIT_ORDER});
    assert_int_equal(split.validation.count, 251);
    for (int64_t i = 0; i < split.train.count; i++)
        assert_true(dataset_view_index(&split.train, i) * 7 % ROWS < ROWS - 251);
    for (int fold = 0; fold < 4; fold++) { /* 1003 / 5 rows each, behind all those for training */
        make_split(dataset, (struct dataset_split_config){
                                .rule = DATASET_SPLIT_ORDER, .folds = 4, .fold = fold});
        assert_int_equal(split.validation.count, 200);
        assert_int_equal(split.train.count, ROWS - 200 * (4 - fold));
        for (int64_t i = 0; i < 200; i++)
            assert_in_range(dataset_view_index(&split.validation, i) * 7 % ROWS, split.train.count,
                            split.train.count + 199);
        for (int64_t i = 0; i < split.train.count; i++)
            assert_true(dataset_view_index(&split.train, i) * 7 % ROWS < split.train.count);
    }
    dataset_close(dataset);

    config.table.split_column = NULL; /* the order of the file */
    dataset = rows_open();
    make_split(dataset,
               (struct dataset_split_config){.fraction = 0.1, .rule = DATASET_SPLIT_ORDER});
    assert_int_equal(dataset_view_index(&split.validation, 0), ROWS - 100);
    assert_int_equal(dataset_view_index(&split.train, split.train.count - 1), ROWS - 101);
    dataset_split_release(&split);
    dataset_close(dataset);
}

static void test_groups(void **state)
{
    (void)state;
    config.table.split_column = "group";
    config.table.split_keys = DATASET_KEYS_GROUPS;
    struct dataset *dataset = rows_open();

    assert_int_equal(dataset->sample_elements, 1 + 7); /* x and when, but no group */
    for (int percent = 2; percent < 90; percent += 8) {
        int validates[GROUPS] = {0}, trains[GROUPS] = {0};

        make_split(dataset, (struct dataset_split_config){.fraction = percent / 100.0,
                                                          .seed = (uint64_t)percent,
                                                          .rule = DATASET_SPLIT_GROUP});
        assert_true(split.train.count > 0 && split.validation.count > 0);
        assert_int_equal(split.train.count + split.validation.count, ROWS);
        for (int64_t i = 0; i < split.validation.count; i++)
            validates[group_of(dataset_view_index(&split.validation, i))]++;
        for (int64_t i = 0; i < split.train.count; i++)
            trains[group_of(dataset_view_index(&split.train, i))]++;
        for (int group = 0; group < GROUPS; group++)
            assert_true(!validates[group] || !trains[group]);
    }
    expect_refusal(dataset, (struct dataset_split_config){.rule = DATASET_SPLIT_GROUP, .folds = 24},
                   "has 23 different groups, but 24 are needed");
    dataset_close(dataset);
    config.table.split_column = NULL;
    dataset = rows_open();
    expect_refusal(dataset,
                   (struct dataset_split_config){.fraction = 0.1, .rule = DATASET_SPLIT_GROUP},
                   "data.split.column has to name the column");
    dataset_close(dataset);
}

/* "label;part;x": rows of three parts. */
static struct dataset *parts_open(const char *const words[3])
{
    char *text = malloc(64 * ROWS), *end = text + sprintf(text, "label;part;x\n");
    struct dataset *dataset;

    for (int64_t i = 0; i < ROWS; i++)
        end += sprintf(end, "%d;%s;%d\n", class_of(i), words[i * i % 11 % 3], (int)i);
    path = data_file_write_text("parts.csv", text);
    config.table.split_column = "part";
    config.table.split_keys = DATASET_KEYS_PARTS;
    dataset = data_open(&config, NULL);
    free(text);
    return dataset;
}

/* Checks that the view has the rows of the part, in their order. */
static void expect_part(const struct dataset_view *view, int part)
{
    int64_t place = 0;

    for (int64_t i = 0; i < ROWS; i++)
        if (i * i % 11 % 3 == part)
            assert_int_equal(dataset_view_index(view, place++), i);
    assert_int_equal(view->count, place);
}

static void test_column(void **state)
{
    static const char *const words[] = {"train", "Val", "TEST"}, *const years[] = {"1", "2", "3"};
    static const char *const second[] = {"2"}, *const third[] = {"3"};
    const struct dataset_split_config how = {.fraction = 0.1, .rule = DATASET_SPLIT_COLUMN};

    (void)state;
    for (int named = 0; named < 2; named++) {
        struct dataset *dataset;

        config.table.validation_values = named ? second : NULL;
        config.table.test_values = named ? third : NULL;
        config.table.validation_value_count = config.table.test_value_count = named;
        dataset = parts_open(named ? years : words);
        assert_int_equal(dataset->sample_elements, 1); /* x, but no part */
        make_split(dataset, how);
        expect_part(&split.train, 0);
        expect_part(&split.validation, 1);
        expect_part(&split.test, 2);
        dataset_split_release(&split);
        dataset_close(dataset);
    }

    config.table.validation_values = config.table.test_values = second;
    path = data_file_write_text("part.csv", "label;part;x\n0;1;1\n1;2;2\n");
    data_expect_refusal(&config, NULL, -EINVAL, "\"2\" among validation_values and test_values",
                        (const char *)NULL);
    config.table.test_values = third;
    data_expect_refusal(&config, NULL, -EINVAL, "no row whose column \"part\"", "(\"3\")",
                        (const char *)NULL);
    config.table.validation_values = config.table.test_values = NULL;
    path = data_file_write_text("part.csv", "label;part;x\n0;train;1\n1;later;2\n");
    data_expect_refusal(&config, NULL, -EINVAL,
                        "part.csv:3: \"later\" in the column part is neither train, validation nor "
                        "test",
                        (const char *)NULL);
    path = data_file_write_text("part.csv", "label;part;x\n0;train;1\n1;test;2\n");
    struct dataset *dataset = data_open(&config, NULL);

    expect_refusal(dataset, how, "has no sample for validation");
    dataset_close(dataset);
}

static void test_faults(void **state)
{
    (void)state;
    config.table.split_column = "when";
    path = data_file_write_text("few.csv", "label;when;x\n0;2026-01-01;1\n1;7;2\n0;2026-01-03;3\n");
    data_expect_refusal(&config, NULL, -EINVAL, "few.csv:3: \"7\" in the column when is no date",
                        (const char *)NULL);
    path = data_file_write_text("few.csv", "label;when;x\n0;5;1\n1;;2\n0;7;3\n");
    data_expect_refusal(&config, NULL, -EINVAL,
                        "few.csv:3: \"\" in the column when is neither a number nor a date",
                        (const char *)NULL);
    config.table.split_column = "where";
    data_expect_refusal(&config, NULL, -EINVAL, "has no column named \"where\"",
                        (const char *)NULL);

    config.table.split_column = NULL;
    config.target = DATASET_TARGET_VALUE;
    path = data_file_write_text("few.csv", "label;x\n0.5;1\n1.5;2\n2.5;3\n");
    struct dataset *dataset = data_open(&config, NULL);

    expect_refusal(dataset,
                   (struct dataset_split_config){.fraction = 0.1, .rule = DATASET_SPLIT_STRATIFIED},
                   "which have no classes");
    expect_refusal(dataset, (struct dataset_split_config){.folds = 4},
                   "3 samples cannot be cut into the 4 parts");
    expect_refusal(dataset, (struct dataset_split_config){.rule = DATASET_SPLIT_ORDER, .folds = 3},
                   "3 samples cannot be cut into the 4 parts");
    expect_refusal(dataset, (struct dataset_split_config){.folds = 3, .fold = 3},
                   "the last one is number 2");
    make_split(dataset, (struct dataset_split_config){.folds = 3, .fold = 2});
    assert_int_equal(split.validation.count, 1);
    dataset_split_release(&split);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_stratified, reset), cmocka_unit_test_setup(test_folds, reset),
        cmocka_unit_test_setup(test_order, reset),      cmocka_unit_test_setup(test_groups, reset),
        cmocka_unit_test_setup(test_column, reset),     cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_hold_out, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
