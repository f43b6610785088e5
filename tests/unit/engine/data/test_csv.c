/* test_csv.c: tables: their numbers, headers, labels and errors. */
#include "engine/data/reader.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *path;
static struct dataset_config config;

static int reset(void **state)
{
    (void)state;
    config = (struct dataset_config){.format = DATASET_CSV, .paths = &path, .path_count = 1};
    return 0;
}

static struct dataset *open_text(const char *text)
{
    path = data_file_write_text("table.csv", text);
    return data_open(&config, NULL);
}

static const float *features(const struct dataset *dataset)
{
    return (const float *)(const void *)dataset->samples[0];
}

#define REFUSE(text, ...)                                                                          \
    do {                                                                                           \
        path = data_file_write_text("table.csv", text);                                            \
        data_expect_refusal(&config, NULL, -EINVAL, "table.csv", __VA_ARGS__, (const char *)NULL); \
    } while (0)

static void test_plain(void **state)
{
    struct dataset *dataset = open_text("# comment\n1, 2.5,0\r\n\n -3e2,.5 ,2\n\"7\",8,1");

    (void)state;
    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->rank, 1);
    assert_int_equal(dataset->shape[0], 2);
    assert_int_equal(dataset->classes, 3);
    static const float expected[] = {1, 2.5f, -300, .5f, 7, 8};
    assert_memory_equal(features(dataset), expected, sizeof expected);
    static const int32_t labels[] = {0, 2, 1};
    assert_memory_equal(dataset->labels, labels, sizeof labels);
    assert_null(dataset->column_names);
    dataset_close(dataset);
}

static void test_label_columns(void **state)
{
    static const struct {
        const char *column, *text;
    } cases[] = {{"first", "1,20,30\n0,21,31\n"},
                 {"last", "20,30,1\n21,31,0\n"},
                 {NULL, "20,30,1\n21,31,0\n"},
                 {"1", "20,1,30\n21,0,31\n"},
                 {"kind", "a,kind,b\n20,1,30\n21,0,31\n"}};
    static const float expected[] = {20, 30, 21, 31};
    static const int32_t labels[] = {1, 0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.csv.label_column = cases[i].column;
        struct dataset *dataset = open_text(cases[i].text);
        assert_memory_equal(features(dataset), expected, sizeof expected);
        assert_memory_equal(dataset->labels, labels, sizeof labels);
        dataset_close(dataset);
    }
}

static void test_header(void **state)
{
    (void)state;
    struct dataset *dataset = open_text("\xef\xbb\xbf\"x, old\" ,y,target\n1,2,0\n");
    assert_int_equal(dataset->count, 1);
    assert_string_equal(dataset->column_names[0], "x, old");
    assert_string_equal(dataset->column_names[1], "y");
    assert_string_equal(dataset->target_name, "target");
    dataset_close(dataset);

    config.csv.header = DATASET_HEADER_YES;
    dataset = open_text("2019,2020,label\n1,2,0\n");
    assert_int_equal(dataset->count, 1);
    assert_string_equal(dataset->column_names[1], "2020");
    dataset_close(dataset);

    config.csv.header = DATASET_HEADER_NO;
    REFUSE("a,b,c\n1,2,0\n", ":1, column 1", "\"a\" is not a number", "header to yes");
}

static void test_words(void **state)
{
    (void)state;
    REFUSE("x,y,kind\n1,2,cat\n", ":2, column 3", "the class \"cat\" is not a number",
           "number the classes from 0");
    REFUSE("kind,x,y\ncat,1,2\n", ":2, column 1", "\"cat\" is not a number",
           "set label_column to \"kind\"");
    config.csv.header = DATASET_HEADER_NO;
    REFUSE("1,cat,2\n", ":1, column 2", "\"cat\" is not a number", "set label_column to \"1\"",
           "header to yes");
    REFUSE("1,2,cat\n", ":1, column 3", "number the classes from 0");
    config.csv.header = DATASET_HEADER_AUTO;
    config.target = DATASET_TARGET_VALUE;
    REFUSE("x,y,kind\n1,2,cat\n", ":2, column 3", "the value to predict \"cat\" is not a number",
           "choose cross entropy");
}

static void test_several_files(void **state)
{
    const char *paths[] = {data_file_write_text("a.csv", "a,b,l\n1,2,0\n"),
                           data_file_write_text("b.csv", "# more\na,b,l\n3,4,1\n"),
                           data_file_write_text("c.csv", "5,6,0\n")};

    (void)state;
    config.paths = paths;
    config.path_count = 3;
    struct dataset *dataset = data_open(&config, NULL);
    static const float expected[] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(dataset->count, 3);
    assert_memory_equal(features(dataset), expected, sizeof expected);
    dataset_close(dataset);

    paths[1] = data_file_write_text("b.csv", "a,c,l\n3,4,1\n");
    data_expect_refusal(&config, NULL, -EINVAL, "b.csv:1, column 2", "\"c\"", "\"b\"", NULL);
    paths[1] = data_file_write_text("b.csv", "3,4,4,1\n");
    data_expect_refusal(&config, NULL, -EINVAL, "b.csv:1", "4 columns", "first row 3", NULL);
}

static void test_options(void **state)
{
    (void)state;
    config.csv.divide_by = 16;
    config.csv.delimiter = ';';
    config.csv.comment_prefix = "//";
    config.rank = 3;
    config.shape[0] = 1, config.shape[1] = 2, config.shape[2] = 2;
    struct dataset *dataset = open_text("// 8x8\n16;8;4;0;1\n");
    static const float expected[] = {1, .5f, .25f, 0};
    assert_memory_equal(features(dataset), expected, sizeof expected);
    assert_int_equal(dataset->rank, 3);
    assert_int_equal(dataset->labels[0], 1);
    dataset_close(dataset);
    config.shape[2] = 3;
    REFUSE("16;8;4;0;1\n", "4 columns", "[1,2,3]", "6");

    reset(state);
    config.csv.delimiter = ' ';
    dataset = open_text("  1   2 0  \n3 4  1\n");
    static const float blanks[] = {1, 2, 3, 4};
    assert_memory_equal(features(dataset), blanks, sizeof blanks);
    dataset_close(dataset);
    config.csv.delimiter = '\t';
    dataset = open_text("1\t 2\t0\n3\t4\t1\n");
    assert_memory_equal(features(dataset), blanks, sizeof blanks);
    dataset_close(dataset);
}

static void test_values_as_targets(void **state)
{
    (void)state;
    config.target = DATASET_TARGET_VALUE;
    struct dataset *dataset = open_text("1,2.5\n2,-1e-3\n");
    static const uint32_t indices[] = {1, 0};
    struct dataset_view all = dataset_view_all(dataset);
    struct dataset_normalisation normalisation;
    float rows[2], targets[2];
    struct error error;

    dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &normalisation, &error);
    assert_int_equal(dataset_gather(dataset, &normalisation, indices, 2, rows, targets, &error), 0);
    assert_true(targets[0] == -1e-3f && targets[1] == 2.5f && rows[0] == 2 && rows[1] == 1);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
    REFUSE("1,1e39\n", ":1, column 2", "1e+39", "float32");
}

/* For each column, measured over the training part. A constant column is only shifted. */
static void test_standard(void **state)
{
    (void)state;
    struct dataset *dataset = open_text("1,0.1,0\n3,0.1,0\n100,7,0\n");
    struct dataset_view train = {.dataset = dataset, .count = 2};
    struct dataset_normalisation normalisation, copy;
    static const uint32_t indices[] = {0, 1, 2};
    float rows[3][2];
    int32_t labels[3];
    struct error error;

    dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &train, &normalisation, &error);
    dataset_gather(dataset, &normalisation, indices, 3, rows, labels, &error);
    assert_true(rows[0][0] == -1 && rows[1][0] == 1 && rows[2][0] == 98);
    assert_true(rows[0][1] == 0 && rows[1][1] == 0 && rows[2][1] == 7 - .1f);

    char *text = dataset_normalisation_format(&normalisation);
    assert_int_equal(dataset_normalisation_parse(text, dataset, &copy, &error), 0);
    assert_int_equal(copy.kind, DATASET_NORMALISE_STANDARD);
    assert_memory_equal(copy.mean, normalisation.mean, 2 * sizeof(float));
    assert_memory_equal(copy.factor, normalisation.factor, 2 * sizeof(float));
    dataset_normalisation_release(&copy);
    struct dataset *other = open_text("1,2,3,0\n");
    assert_int_equal(dataset_normalisation_parse(text, other, &copy, &error), -EINVAL);
    assert_non_null(strstr(error.text, "for 2 channels or columns, but the data have 3"));
    dataset_close(other);
    for (size_t cut = strlen(text); cut-- > 0;) {
        if (text[cut] != ' ' && text[cut] != ',')
            continue;
        text[cut] = '\0';
        assert_int_equal(dataset_normalisation_parse(text, dataset, &copy, &error), -EINVAL);
    }
    free(text);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
}

static void test_refusals(void **state)
{
    (void)state;
    REFUSE("# nothing\n", "no row of numbers");
    REFUSE("a,b,c\n", "no row of numbers");
    REFUSE("1\n2\n", ":1", "one column only", "','");
    REFUSE("1,2,0\n1,0\n", ":2", "2 columns", "first row 3");
    REFUSE("1,2,0\n1,2,3,0\n", ":2", "4 columns", "first row 3");
    REFUSE("1,2,0\n1,,0\n", ":2, column 2", "empty");
    REFUSE("1,2,0\n1,2,\n", ":2, column 3", "empty");
    REFUSE("1,2,0\n1,2x,0\n", ":2, column 2", "\"2x\" is not a number");
    REFUSE("1,2,0\n1,nan,0\n", ":2, column 2", "\"nan\" is not a number");
    REFUSE("1,2,0\n1,0x10,0\n", ":2, column 2", "\"0x10\"");
    REFUSE("1,2,0\n1,\"2,0\n", ":2", "columns");
    REFUSE("1,2,0\n1,\x1b[31m,0\n", ":2, column 2", "\\x1b[31m");
    REFUSE("1,2,0\n1,caf\xe9,0\n", "\"caf\\xe9\" is not a number");
    REFUSE("1,2,0\n1e300,2,0\n", ":2, column 1", "float32");
    REFUSE("1,2,0.5\n", ":1, column 3", "0.5 is no class", "mean squared error");
    REFUSE("1,2,-1\n", ":1, column 3", "-1 is no class");
    REFUSE("1,2,setosa\n", ":1, column 3", "\"setosa\" is not a number");
    config.classes = 3;
    REFUSE("1,2,2\n1,2,3\n", ":2, column 3", "label 3", "3 classes");
    config.csv.label_column = "tagret";
    REFUSE("a,b,target\n1,2,0\n", "no column named \"tagret\"", "did you mean \"target\"");
    REFUSE("1,2,0\n", "label_column is \"tagret\"", "no header row");
    REFUSE("a,tagret,tagret\n1,2,0\n", "label_column is \"tagret\"", "columns 1 and 2", "number");
    config.csv.label_column = "3";
    REFUSE("1,2,0\n", "label_column is 3", "0 to 2");
}

static void test_reference(void **state)
{
    struct dataset *train = open_text("a,b,l\n1,2,4\n");
    struct dataset *test;

    (void)state;
    path = data_file_write_text("test.csv", "1,2,0\n");
    test = data_open(&config, train);
    assert_int_equal(test->classes, 5);
    dataset_close(test);
    path = data_file_write_text("test.csv", "1,2,5\n");
    data_expect_refusal(&config, train, -EINVAL, "test.csv:1", "label 5", "5 classes", NULL);
    path = data_file_write_text("test.csv", "1,2,3,0\n");
    data_expect_refusal(&config, train, -EINVAL, "[3]", "[2]", NULL);
    path = data_file_write_text("test.csv", "b,a,l\n1,2,0\n");
    data_expect_refusal(&config, train, -EINVAL, "\"b\"", "\"a\"", NULL);
    dataset_close(train);
}

static void check_number(const char *text)
{
    double value = 0, expected = strtod(text, NULL);
    const char *end = text + strlen(text);

    if (number_parse(text, end, &value) != end || memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("%s: %.17g instead of %.17g", text, value, expected);
}

/* The bits are those of the library's strtod(). */
static void test_numbers(void **state)
{
    static const char *const chosen[] = {
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "1e5",
        "1E-5",
        "9007199254740993",
        "9007199254740992",
        "123456789012345678901234567890",
        "0.000000000000000000000000000001234",
        "1e22",
        "1e23",
        "2.2250738585072014e-308",
        "4.9e-324",
        "1e-400",
        "1e400",
        "-1e400",
        "3.4028236e38",
        "0.1000000000000000055511151231257827021181583404541015625",
        "1e-22",
        "5e-23",
        "00000000000000000000000012.5",
        "0.30000000000000004",
        "1e0000000000000000001"};
    static const char *const wrong[] = {"",    "-",  "+",   ".",   "e5",  "1e",
                                        "1e+", "-.", "inf", "nan", "abc", ",1"};
    uint64_t random = 1;

    (void)state;
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
        check_number(chosen[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        double value;
        assert_null(number_parse(wrong[i], wrong[i] + strlen(wrong[i]), &value));
    }
    for (int i = 0; i < 200000; i++) {
        char text[64];
        double value;

        random = random * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &random, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, "%.*g", (int)(random % 19) + 1, value);
        check_number(text);
        snprintf(text, sizeof text, "%.*f", (int)(random % 12), (double)(int64_t)random * 1e-12);
        check_number(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_plain, reset),
        cmocka_unit_test_setup(test_label_columns, reset),
        cmocka_unit_test_setup(test_header, reset),
        cmocka_unit_test_setup(test_words, reset),
        cmocka_unit_test_setup(test_several_files, reset),
        cmocka_unit_test_setup(test_options, reset),
        cmocka_unit_test_setup(test_values_as_targets, reset),
        cmocka_unit_test_setup(test_standard, reset),
        cmocka_unit_test_setup(test_refusals, reset),
        cmocka_unit_test_setup(test_reference, reset),
        cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
