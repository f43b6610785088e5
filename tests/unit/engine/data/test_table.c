/* test_table.c: tables as people have them: kinds of columns, missing values, labels, faults. */
#include "engine/data/table_columns.h"
#include "tests/support/table_file.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int reset(void **state)
{
    (void)state;
    table_file_reset(DATASET_TABLE);
    return 0;
}

static const float *row_of(const struct dataset *dataset, int64_t row)
{
    return (const float *)dataset->buffer + row * dataset->sample_elements;
}

static void check_row(const struct dataset *dataset, int64_t row, const float *expected)
{
    for (int64_t i = 0; i < dataset->sample_elements; i++)
        if (fabsf(row_of(dataset, row)[i] - expected[i]) > 1e-6f)
            fail_msg("row %lld, %s: %g is not %g", (long long)row, dataset->column_names[i],
                     (double)row_of(dataset, row)[i], (double)expected[i]);
}

static void check_names(const struct dataset *dataset, ...)
{
    va_list names;
    int64_t i = 0;

    va_start(names, dataset);
    for (const char *name; (name = va_arg(names, const char *)); i++) {
        assert_true(i < dataset->sample_elements);
        assert_string_equal(dataset->column_names[i], name);
    }
    va_end(names);
    assert_int_equal(i, dataset->sample_elements);
}

#define PEOPLE                                \
    "id;name;age;town;member;kind\n"          \
    "1;\"Doe; \"\"J\"\"\";31;Rome;yes;gold\n" \
    "2;Roe;NA;Oslo;no;silver\n"               \
    "3;Poe;29;Rome;yes;gold\n"                \
    "4;Moe;;?;no;bronze\n"                    \
    "5;Coe;30;Oslo;no;gold\n"                 \
    "6;Zoe;34;Rome;yes;gold\n"

static void kinds_are_found_by_reading(void **state)
{
    struct dataset *people = table_file_open(PEOPLE, NULL);

    (void)state;
    check_names(people, "age", "age is missing", "town=Oslo", "town=Rome", "town is missing",
                "member=no", "member=yes", NULL);
    check_row(people, 0, (float[]){31, 0, 0, 1, 0, 0, 1});
    check_row(people, 1, (float[]){31, 1, 1, 0, 0, 1, 0}); /* the mean of 31, 29, 30, 34 */
    check_row(people, 3, (float[]){31, 1, 0, 0, 1, 1, 0});
    assert_int_equal(people->classes, 3);
    assert_string_equal(people->class_names[0], "bronze");
    assert_int_equal(people->labels[0], 1);
    assert_int_equal(people->labels[3], 0);
    assert_string_equal(people->target_name, "kind");
    assert_string_equal(table_file.warnings,
                        "columns are left out: \"id\" (the number of the row), \"name\" "
                        "(texts that hardly ever return)\n");
    dataset_close(people);
}

/* Another table has its columns in another order, some more, and categories that are new. */
static void other_tables_are_encoded_as_the_training_table(void **state)
{
    struct dataset *people = table_file_open(PEOPLE, NULL), *test;

    (void)state;
    table_file.warnings[0] = '\0';
    test =
        table_file_open("kind;town;size;member;age\nsilver;Bonn;7;yes;50\ngold;;7;no;NA\n", people);
    check_row(test, 0, (float[]){50, 0, 0, 0, 0, 0, 1});
    check_row(test, 1, (float[]){31, 1, 0, 0, 1, 1, 0});
    assert_int_equal(test->labels[0], 2);
    assert_int_equal(test->labels[1], 1);
    assert_non_null(
        strstr(table_file.warnings, "1 cells hold categories that the training data lack"));
    dataset_close(test);
    REFUSE_BESIDE(people, "kind;town;age\ngold;Rome;3\n", "lacks the column \"member\"");
    REFUSE_BESIDE(people, "kind;town;member;age\niron;Rome;no;3\n", "table.csv:2", "\"iron\"",
                  "none of the training data");
    REFUSE_BESIDE(people, "kind;town;member;age\ngold;Rome;no;old\n", "table.csv:2",
                  "\"old\" in the column age is no number");
    REFUSE_BESIDE(people, "1;2;3;4\n", "have a row of names", "set header");
    dataset_close(people);
}

static void values_that_are_missing_in_other_tables_alone_are_told(void **state)
{
    struct dataset *train = table_file_open("a,b,y\n1,u,0\n2,v,1\n3,u,1\n4,v,0\n", NULL), *test;

    (void)state;
    test = table_file_open("a,b,y\n,u,0\n2,,1\n", train);
    check_row(test, 0, (float[]){2.5, 1, 0});
    check_row(test, 1, (float[]){2, 0, 0});
    assert_non_null(
        strstr(table_file.warnings, "2 cells are empty in columns that are never empty"));
    dataset_close(test);
    dataset_close(train);
}

static void configuration_decides_over_columns(void **state)
{
    static const char *const age[] = {"age"}, *const member[] = {"4"}, *const none[] = {"none"};
    struct dataset *people;

    (void)state;
    table_file.config.table.categories = age;
    table_file.config.table.category_count = 1;
    table_file.config.table.ignored = member;
    table_file.config.table.ignored_count = 1;
    table_file.config.table.missing = DATASET_MISSING_MEAN;
    people = table_file_open(PEOPLE, NULL);
    check_names(people, "age=29", "age=30", "age=31", "age=34", "town=Oslo", "town=Rome", NULL);
    dataset_close(people);
    table_file.config.table.features = age;
    table_file.config.table.feature_count = 1;
    people = table_file_open(PEOPLE, NULL);
    check_names(people, "age=29", "age=30", "age=31", "age=34", NULL);
    dataset_close(people);
    table_file.config.table.missing = DATASET_MISSING_DROP;
    people = table_file_open(PEOPLE, NULL);
    assert_int_equal(people->count, 4);
    assert_non_null(strstr(table_file.warnings, "2 rows with missing values are left out"));
    dataset_close(people);
    table_file.config.table.missing = DATASET_MISSING_ERROR;
    REFUSE(PEOPLE, "table.csv:3", "\"NA\" in the column age is no value");
    table_file.config.table.missing_words = none;
    table_file.config.table.missing_word_count = 1;
    table_file.config.table.missing = DATASET_MISSING_MEAN;
    table_file.config.table.ignored_count = 0;
    people = table_file_open("age,kind\n1,a\nnone,b\n3,a\nNA,b\n", NULL);
    check_names(people, "age=1", "age=3", "age=NA", NULL);
    dataset_close(people);
}

static void check_label(const struct dataset *dataset, int64_t row, const char *name)
{
    assert_string_equal(dataset->class_names[dataset->labels[row]], name);
}

static void rows_that_are_left_out_make_no_class(void **state)
{
    static const char *const texts[] = {"y,x\na,1\nb,2\nc,\na,3\n", "x,y\n1,a\n2,b\n,c\n3,a\n"};

    (void)state;
    table_file.config.table.missing = DATASET_MISSING_DROP;
    for (int i = 0; i < 2; i++) {
        struct dataset *train;

        table_file.config.csv.label_column = "y";
        train = table_file_open(texts[i], NULL);
        assert_int_equal(train->count, 3);
        assert_int_equal(train->classes, 2);
        check_label(train, 2, "a");
        dataset_close(train);
    }
}

static void labels_that_are_numbers_make_no_empty_classes(void **state)
{
    struct dataset *train = table_file_open("x,y\n1,3\n2,1\n3,2\n4,10\n", NULL), *test;

    (void)state;
    assert_int_equal(train->classes, 4);
    check_label(train, 0, "3");
    check_label(train, 3, "10");
    assert_int_equal(train->labels[3], 3);
    test = table_file_open("x,y\n1,10.0\n", train);
    assert_int_equal(test->labels[0], 3);
    dataset_close(test);
    REFUSE_BESIDE(train, "x,y\n1,4\n", "table.csv:2", "\"4\" is none of the training data");
    REFUSE_BESIDE(train, "x,y\n1,a\n", "table.csv:2", "is no number");
    dataset_close(train);
    train = table_file_open("x,y\n1,-1\n2,1\n3,1\n,\n", NULL);
    assert_int_equal(train->classes, 2);
    check_label(train, 0, "-1");
    assert_non_null(strstr(table_file.warnings, "1 rows have no value to predict"));
    dataset_close(train);
    train = table_file_open("x,y\n1,0\n2,2\n3,1\n", NULL);
    assert_null(train->class_names);
    assert_int_equal(train->labels[1], 2);
    dataset_close(train);
    table_file.config.classes = 5; /* labels below it are classes as they are */
    train = table_file_open("x,y\n1,1\n2,4\n", NULL);
    assert_int_equal(train->classes, 5);
    assert_int_equal(train->labels[1], 4);
    dataset_close(train);
    table_file.config.classes = 0;
    REFUSE("x,y\n1,0.5\n2,1.5\n3,1.7\n", "table.csv:2", "\"0.5\"", "choose the loss mse");
    REFUSE("x,y\n1,0\n2,1\n3,maybe\n", "table.csv:4", "\"maybe\"", "most labels are");
}

static void values_to_predict(void **state)
{
    static const char *const two[] = {"b", "a"}, *const twice[] = {"b", "1"};
    struct dataset *dataset;

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    dataset = table_file_open("x,y\n1,0.5\n2,1.5\n", NULL);
    assert_true(dataset->targets[1] == 1.5f);
    dataset_close(dataset);
    REFUSE("x,y\n1,0.5\n2,red\n", "table.csv:3", "\"red\"", "choose the loss cross_entropy");
    table_file.config.table.targets = two;
    table_file.config.table.target_count = 2;
    dataset = table_file_open("a,b,c\n1,2,3\n4,5,6\n", NULL);
    check_names(dataset, "c", NULL);
    assert_int_equal(dataset->target_width, 2);
    assert_true(dataset_targets(dataset, 1)[0] == 5 && dataset_targets(dataset, 1)[1] == 4);
    dataset_close(dataset);
    table_file.config.table.targets = twice;
    REFUSE("a,b,c\n1,2,3\n", "targets names the column b twice");
    table_file.config.target = DATASET_TARGET_CLASS;
    table_file.config.table.targets = two;
    REFUSE("a,b,c\n1,2,3\n", "targets names 2 columns", "loss mse");
}

/* Over the rows for training alone, and 1 is told in the units of the file. */
static void values_to_predict_are_standardised(void **state)
{
    uint32_t rows[] = {0, 2};
    struct dataset_normalisation constants, read;
    struct dataset *train, *test;
    struct error error;
    char *text;

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    train = table_file_open("x,y\n1,100\n2,1e6\n3,300\n", NULL);
    test = table_file_open("y,x\n500,3\n", train);
    assert_int_equal(dataset_normalisation_measure(
                         DATASET_NORMALISE_STANDARD,
                         &(struct dataset_view){.dataset = train, .indices = rows, .count = 2},
                         &constants, &error),
                     0);
    assert_true(constants.mean[0] == 2 && constants.target_mean[0] == 200);
    assert_int_equal(dataset_normalise_targets(&constants, train, &error), 0);
    assert_int_equal(dataset_normalise_targets(&constants, test, &error), 0);
    assert_true(train->targets[0] == -1 && train->targets[2] == 1 && test->targets[0] == 3);
    assert_true(fabs(train->target_units[0] - 100) < 1e-4);
    text = dataset_normalisation_format(&constants);
    assert_int_equal(dataset_normalisation_parse(text, train, &read, &error), 0);
    assert_true(read.target_factor[0] == constants.target_factor[0]);
    free(text);
    dataset_normalisation_release(&read);
    dataset_normalisation_release(&constants);
    dataset_close(test);
    dataset_close(train);
}

static void headers_and_delimiters_are_found(void **state)
{
    struct dataset *dataset =
        table_file_open(",0,1\n0,5,1\n1,6,0\n2,6,1\n", NULL); /* as pandas writes */

    (void)state;
    check_names(dataset, "0", NULL);
    assert_int_equal(dataset->count, 3);
    assert_non_null(strstr(table_file.warnings, "is taken for the names of the columns"));
    dataset_close(dataset);
    dataset = table_file_open("p\tx\ne\ty\np\tx\ne\tx\n", NULL); /* the first row returns */
    check_names(dataset, "0=e", "0=p", NULL);
    assert_int_equal(dataset->count, 4);
    assert_non_null(strstr(table_file.warnings, "is taken for a sample"));
    dataset_close(dataset);
    table_file.config.table.decimal = DATASET_DECIMAL_COMMA;
    dataset = table_file_open("a;b\n1,5;0\n-2,25;1\n", NULL);
    assert_true(row_of(dataset, 1)[0] == -2.25f);
    dataset_close(dataset);
    table_file.config.table.decimal = DATASET_DECIMAL_AUTO;
    REFUSE("a;b\n1,5;0\n-2,25;1\n", "table.csv:2", "\"1,5\"", "set decimal to comma");
    REFUSE("a;b\n1,500;0\n2,250;1\n", "\"1,500\"", "if it parts thousands");
}

static void years_name_columns(void **state)
{
    struct dataset *table;

    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    table = table_file_open("country,2019,2020,2021\nRome,1,2,3\nOslo,4,5,6\nRome,7,8,9\n", NULL);
    assert_int_equal(table->count, 3);
    assert_string_equal(table->column_names[0], "2019");
    assert_non_null(strstr(table_file.warnings, "is taken for the names of the columns"));
    dataset_close(table);
    table = table_file_open("2019,2020\n1,2\n3,4\n", NULL);
    assert_int_equal(table->count, 2);
    dataset_close(table);
    table = table_file_open("2019,2021\n1,2\n3,4\n", NULL); /* they do not follow each other */
    assert_int_equal(table->count, 3);
    dataset_close(table);
    table = table_file_open("a,0,1\nb,0,1\na,1,0\n", NULL); /* a sample as any other */
    assert_int_equal(table->count, 3);
    dataset_close(table);
}

static void excel_tells_the_delimiter(void **state)
{
    struct dataset *table;

    (void)state;
    table = table_file_open("sep=;\r\nx;y\r\n1;a\r\n2;b\r\n", NULL);
    assert_int_equal(table->count, 2);
    assert_string_equal(table->column_names[0], "x");
    dataset_close(table);
    REFUSE("sep=,\nx,y\n1\n", "table.csv:3");
}

static void numbers_that_float32_has_no_room_for(void **state)
{
    (void)state;
    table_file.config.target = DATASET_TARGET_VALUE;
    REFUSE("x,y\n1,1e38\n2,-1e38\n3,0\n", "column \"y\"", "dividing all of them by 1e+38");
    REFUSE("x,y\n1,1e-42\n2,3e-42\n3,2e-42\n", "column \"y\"", "multiplying all of them by");
    REFUSE("x,y\n1e31,1\n2,3\n3,2\n", "column \"x\"", "dividing");
}

static void a_zero_in_a_name_is_named(void **state)
{
    static const char text[] = "x,y\0z\n1,a\n2,b\n";

    (void)state;
    table_file.path = data_file_write("table.csv", text, sizeof text - 1);
    data_expect_refusal(&table_file.config, NULL, -EINVAL, "table.csv:1, column 2", "byte of zero",
                        (const char *)NULL);
}

static void other_encodings_are_read(void **state)
{
    static const char plain[] = "x,y\n1,a\n2,b\n3,a\n";
    enum { LENGTH = sizeof plain - 1 };
    char text[4 * LENGTH + 4];

    (void)state;
    for (int kind = 0; kind < 4; kind++) { /* UTF-16 without a mark, UTF-32; little, big endian */
        size_t width = kind < 2 ? 2 : 4, size = 0;
        struct dataset *table;

        memset(text, 0, sizeof text);
        if (kind >= 2) {
            memcpy(text, kind == 2 ? "\xff\xfe\0" : "\0\0\xfe\xff", 4);
            size = 4;
        }
        for (size_t i = 0; i < LENGTH; i++, size += width)
            text[size + (kind % 2 ? width - 1 : 0)] = plain[i];
        table_file.path = data_file_write("table.csv", text, size);
        table = data_open(&table_file.config, NULL);
        assert_int_equal(table->count, 3);
        assert_string_equal(table->column_names[0], "x");
        dataset_close(table);
    }
}

static void utf16_is_read(void **state)
{
    /* "é,y\n1,0\n2,1\n", little-endian */
    static const char text[] = "\xff\xfe\xe9\0,\0y\0\n\0001\0,\0000\0\n\0002\0,\0001\0\n";
    struct dataset *dataset;

    (void)state;
    table_file.path = data_file_write("table.csv", text, sizeof text);
    dataset = data_open(&table_file.config, NULL);
    check_names(dataset, "é", NULL);
    assert_int_equal(dataset->count, 2);
    dataset_close(dataset);
    table_file.path = data_file_write("table.csv", "\xff\xfe,\0\0\xdc,\0", 8);
    data_expect_refusal(&table_file.config, NULL, -EINVAL, "table.csv", "byte 4", NULL);
    table_file.path = data_file_write("table.csv", "\xff\xfe", 2);
    data_expect_refusal(&table_file.config, NULL, -EINVAL, "is empty", NULL);
}

static void texts_in_quotes_may_hold_ends_of_lines(void **state)
{
    struct dataset *dataset = table_file_open(
        "note,a,y\n\"one\ntwo, \"\"three\"\"\r\n\",1,0\nplain,2,1\n\"last\n\",3,1", NULL);

    (void)state;
    check_names(dataset, "a", NULL);
    assert_int_equal(dataset->count, 3);
    assert_true(row_of(dataset, 2)[0] == 3);
    dataset_close(dataset);
    REFUSE("note,a,y\n\"one\ntwo\",1,0\nx,b,1\ny,3,0\n", "table.csv:4", "\"b\" is no number");
    REFUSE("note,a,y\nx,1,0\n\"one,2,0\ny,3,0\n", "table.csv:3, column 1", "no counterpart");
}

static void dates_become_days_and_circles(void **state)
{
    struct dataset *dataset =
        table_file_open("d,y\n2000-01-01,0\n2000-07-01,1\n,1\n1999-12-31,0\n", NULL);

    (void)state;
    check_names(dataset, "d:days", "d:year_sin", "d:year_cos", "d:week_sin", "d:week_cos",
                "d is missing", NULL);
    check_row(dataset, 0, (float[]){0, 0, 1, 0, 1, 0});
    check_row(dataset, 2, (float[]){(182 - 1) / 3.0f, 0, 0, 0, 0, 1});
    assert_true(row_of(dataset, 3)[0] == -1);
    dataset_close(dataset);
    dataset = table_file_open("d,y\n1/2/2026,0\n1/3/2026,1\n", NULL);
    assert_non_null(strstr(table_file.warnings, "read as month/day/year"));
    assert_true(row_of(dataset, 1)[0] - row_of(dataset, 0)[0] == 1);
    dataset_close(dataset);
    table_file.config.table.day_first = true;
    dataset = table_file_open("d,y\n1/2/2026,0\n1/3/2026,1\n", NULL);
    assert_true(row_of(dataset, 1)[0] - row_of(dataset, 0)[0] == 28);
    dataset_close(dataset);
}

static void faults_are_named(void **state)
{
    (void)state;
    REFUSE("a,y\n1,0\n2,1\nabc,1\n", "table.csv:4", "\"abc\" is no number, but 2 of the 3 cells");
    REFUSE("a,y\nabc,1\n5,0\n6,0\n7,0\n", "table.csv:2", "\"abc\"");
    REFUSE("a,1\n3,0\n4,1\n5,0\n6,0\n", "table.csv:1", "set header to yes");
    REFUSE("a,y\n1,0\n1,2,3\n", "table.csv:3", "3 columns, but the first row 2");
    REFUSE("a,y\n1,0\n\"1,2\n", "table.csv:3, column 1", "quote");
    REFUSE("a,y\n1e39,0\n1,1\n", "table.csv:2", "does not fit into a float32");
    REFUSE("a,y\n1700000000,0\n1700000050,1\n", "column \"a\"", "too close together for float32");
    table_file.config.target = DATASET_TARGET_VALUE;
    REFUSE("a,y\n1,1700000000\n2,1700000050\n", "column \"y\"", "too close together");
    table_file.config.target = DATASET_TARGET_CLASS;
    REFUSE("y\n1\n0\n", "table.csv:1", "no column is left that a model can learn from");
    REFUSE("a,y\n,1\n,0\n", "table.csv:1", "\"a\" (empty)");
    REFUSE("a,y\n", "the table has no row");
    REFUSE("\n\n", "has no row");
    REFUSE("a,y\n1,\n2,NA\n", "has no row that can be used", "of 2, 2 have no value");
    REFUSE("a,y\n1e400,0\n1e400,1\n", "table.csv:2", "does not fit into a float32");
    REFUSE("PK\3\4a,y\n", "workbook");
}

/* What servers and programs give in the place of a table. */
static void other_texts_are_named(void **state)
{
    (void)state;
    REFUSE("\n <!DOCTYPE html>\n<p>a,y</p>\n", "web page");
    REFUSE("<HTML><p>a,y</p>\n", "web page");
    REFUSE("<?xml version=\"1.0\"?>\n", "XML");
    REFUSE("[{\"a\": 1, \"y\": 0},\n {\"a\": 2, \"y\": 1}]\n", "JSON");
    REFUSE("{\"a\": 1, \"y\": 0}\n{\"a\": 2, \"y\": 1}\n", "JSON");
    REFUSE("{\n  \"rows\": [1, 2]\n}\n", "JSON");
    REFUSE("[\r\n  {\r\n    \"a\": 1\r\n  }\r\n]\r\n", "JSON");
    REFUSE("BZh3a,y\n", "bzip2");
    dataset_close(table_file_open("{a,y\n1,0\n2,1\n", NULL));
}

/* Files that were put together of several have ends of lines of several kinds. */
static void mixed_ends_of_lines_are_named(void **state)
{
    (void)state;
    REFUSE("a,b,y\r1,2,0\n2,1,1\r\n", "table.csv:", "some lines end in a carriage return (CR)");
    REFUSE("a,b,y\n1,2,0\n2,1,1\r3,4,0\n", "table.csv:3", "carriage return");
    REFUSE("a,y\r\n1,0\r\n1,2,3\r\n", "table.csv:3", "3 columns, but the first row 2");
    REFUSE("\"a\r\nb\",y\r\n1,0\r\n1,2,3\r\n", "3 columns, but the first row 2");
}

/* One bad date among good ones is told, as one bad number is. */
/* Tables that were joined as files have the row of names twice. */
static void a_row_of_names_that_returns_is_named(void **state)
{
    (void)state;
    table_file.config.csv.label_column = "y";
    REFUSE("a,y\n1,0\n2,1\na,y\n3,0\n", "table.csv:4", "the row of names returns");
    table_file.config.csv.label_column = "z";
    REFUSE("a,y\n1,0\n2,1\n", "table.csv:1", "no column named \"z\"", "label_column");
    REFUSE("first,second\n1,0\n2,1\n", "table.csv:1", "has \"first\", \"second\"");
    REFUSE("a^y\n1^0\n2^1\n", "table.csv:1", "\"a^y\" alone", "delimiter ','");
}

/* A name that is also a category is one where another name stands above numbers. */
static void names_may_return_as_categories(void **state)
{
    struct dataset *dataset = table_file_open("y,n,age\ny,2,7\nn,3,8\ny,4,9\nn,5,8\n", NULL);

    (void)state;
    check_names(dataset, "y=n", "y=y", "n", NULL);
    assert_string_equal(table_file.warnings, "");
    dataset_close(dataset);
    dataset = table_file_open("a,b,c\nb,a,c\na,a,d\nb,b,d\n", NULL);
    assert_int_equal(dataset->count, 4);
    assert_non_null(strstr(table_file.warnings, "is taken for a sample"));
    dataset_close(dataset);
}

/* Classes of fractions are called as people write them. */
static void classes_have_short_names(void **state)
{
    struct dataset *dataset =
        table_file_open("a,y\n1,0.1\n2,0.30\n3,0.1\n4,1e-7\n5,0.3\n6,1e-7\n7,0.1\n8,0.3\n", NULL);

    (void)state;
    assert_int_equal(dataset->class_count, 3);
    assert_string_equal(dataset->class_names[0], "1e-07");
    assert_string_equal(dataset->class_names[1], "0.1");
    assert_string_equal(dataset->class_names[2], "0.3");
    dataset_close(dataset);
}

/* Codes such as those of towns keep their zeros, unless the column writes them in two ways. */
static void classes_keep_zeros_in_front(void **state)
{
    struct dataset *dataset =
        table_file_open("a,y\n1,02134\n2,10\n3,02134\n4,08\n5,8\n6,10\n7,08\n8,010\n", NULL);
    struct dataset *test = table_file_open("a,y\n1,2134\n2,08\n", dataset);

    (void)state;
    assert_int_equal(dataset->class_count, 3);
    assert_string_equal(dataset->class_names[0], "8");
    assert_string_equal(dataset->class_names[1], "10");
    assert_string_equal(dataset->class_names[2], "02134");
    assert_string_equal(test->class_names[2], "02134");
    assert_int_equal(test->labels[0], 2);
    assert_int_equal(test->labels[1], 0);
    dataset_close(test);
    dataset_close(dataset);
    dataset = table_file_open("a,y\n1,00\n2,01\n3,00\n4,01\n", NULL);
    assert_int_equal(dataset->class_count, 2);
    assert_string_equal(dataset->class_names[1], "01");
    dataset_close(dataset);
}

static void lines_may_end_in_cr_alone(void **state)
{
    struct dataset *dataset = table_file_open("a,y\r1,0\r\"2\",1\r", NULL);

    (void)state;
    check_row(dataset, 1, (float[]){2});
    dataset_close(dataset);
    dataset = table_file_open("\xef\xbb\xbf\xef\xbb\xbf"
                              "a,y\n1,0\n2,1\n",
                              NULL);
    check_names(dataset, "a", NULL);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(kinds_are_found_by_reading, reset),
        cmocka_unit_test_setup(other_tables_are_encoded_as_the_training_table, reset),
        cmocka_unit_test_setup(values_that_are_missing_in_other_tables_alone_are_told, reset),
        cmocka_unit_test_setup(configuration_decides_over_columns, reset),
        cmocka_unit_test_setup(rows_that_are_left_out_make_no_class, reset),
        cmocka_unit_test_setup(labels_that_are_numbers_make_no_empty_classes, reset),
        cmocka_unit_test_setup(values_to_predict, reset),
        cmocka_unit_test_setup(values_to_predict_are_standardised, reset),
        cmocka_unit_test_setup(headers_and_delimiters_are_found, reset),
        cmocka_unit_test_setup(years_name_columns, reset),
        cmocka_unit_test_setup(excel_tells_the_delimiter, reset),
        cmocka_unit_test_setup(numbers_that_float32_has_no_room_for, reset),
        cmocka_unit_test_setup(a_zero_in_a_name_is_named, reset),
        cmocka_unit_test_setup(other_encodings_are_read, reset),
        cmocka_unit_test_setup(utf16_is_read, reset),
        cmocka_unit_test_setup(texts_in_quotes_may_hold_ends_of_lines, reset),
        cmocka_unit_test_setup(dates_become_days_and_circles, reset),
        cmocka_unit_test_setup(faults_are_named, reset),
        cmocka_unit_test_setup(other_texts_are_named, reset),
        cmocka_unit_test_setup(mixed_ends_of_lines_are_named, reset),
        cmocka_unit_test_setup(a_row_of_names_that_returns_is_named, reset),
        cmocka_unit_test_setup(names_may_return_as_categories, reset),
        cmocka_unit_test_setup(classes_have_short_names, reset),
        cmocka_unit_test_setup(classes_keep_zeros_in_front, reset),
        cmocka_unit_test_setup(lines_may_end_in_cr_alone, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
