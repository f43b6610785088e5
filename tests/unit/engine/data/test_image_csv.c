/* test_image_csv.c: tables of images: which rows and columns they take, classes by name, several
 * labels of an image, and errors with their line. */
#include "engine/data/description.h"
#include "engine/data/image_reader.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIDE = 4, PIXELS = SIDE * SIDE };

static struct dataset_config config;
static const char *path;

static void write_image(const char *name, uint8_t value)
{
    uint8_t pixels[3 * PIXELS];

    memset(pixels, value, sizeof pixels);
    data_file_write_png(data_file_path(name), SIDE, SIDE, 3, pixels);
}

static int reset(void **state)
{
    (void)state;
    setenv("XDG_CACHE_HOME", data_file_path("cache"), 1);
    assert_int_equal(system("cd \"$TMPDIR\" && rm -rf photos cache && mkdir -p photos/b"), 0);
    write_image("photos/one.png", 10);
    write_image("photos/b/two, too.png", 20);
    write_image("photos/three.png", 30);
    config = (struct dataset_config){
        .format = DATASET_IMAGE_CSV, .paths = &path, .path_count = 1, .image.channels = 3};
    return 0;
}

static void check_values(const struct dataset *dataset, const char *values)
{
    assert_int_equal(dataset->count, strlen(values));
    for (int64_t i = 0; i < dataset->count; i++)
        assert_int_equal(dataset->samples[0][(size_t)i * dataset->sample_stride],
                         10 * (values[i] - '0'));
}

static void test_classes(void **state)
{
    struct dataset *dataset, *test;

    (void)state;
    path = data_file_write_text("photos/table.csv",
                                "file,size,animal\none.png,3,dog\n\"b/two, too.png\",4,cat\n"
                                "three.png,5,dog\none.png,6,\"cat\"\n");
    dataset = data_open(&config, NULL);
    check_values(dataset, "1231");
    assert_int_equal(dataset->classes, 2);
    assert_string_equal(dataset->class_names[0], "cat");
    for (int i = 0; i < 4; i++)
        assert_int_equal(dataset->labels[i], "1010"[i] - '0');
    /* without a header, other columns, paths from elsewhere; classes as in the training data */
    path = data_file_write_text("other.csv", "dog;3;three.png\ndog;4;one.png\n");
    config.csv.delimiter = ';';
    config.csv.label_column = "first";
    config.image.column = "2";
    config.image.folder = data_file_path("photos");
    test = data_open(&config, dataset);
    check_values(test, "31");
    assert_int_equal(test->labels[0], 1);
    assert_int_equal(test->classes, 2);
    dataset_close(test);
    /* another table's label is in the column that is called like that of the training */
    config = (struct dataset_config){
        .format = DATASET_IMAGE_CSV, .paths = &path, .path_count = 1, .image.channels = 3};
    path = data_file_write_text("photos/other.csv", "file,animal,fold\nthree.png,cat,dog\n");
    test = data_open(&config, dataset);
    assert_int_equal(test->labels[0], 0);
    dataset_close(test);
    config.csv.label_column = "fold";
    test = data_open(&config, dataset);
    assert_int_equal(test->labels[0], 1);
    dataset_close(test);
    config.csv.delimiter = ';';
    config.csv.label_column = "first";
    config.image.column = "2";
    config.image.folder = data_file_path("photos");
    path = data_file_write_text("other.csv", "dog;3;three.png\nemu;4;one.png\n");
    data_expect_refusal(&config, dataset, -EINVAL, "other.csv:2", "\"emu\"", NULL);
    dataset_close(dataset);
}

static void test_values(void **state)
{
    static const float expected[] = {1, 0, 0.5f, 0, 1, -2};
    static const char *const targets[] = {"tall", "small"};
    struct dataset *dataset;

    (void)state;
    config.target = DATASET_TARGET_VALUE;
    path = data_file_write_text("photos/table.csv",
                                "file,small,red,tall\none.png,1,0,.5\nthree.png,0,1,-2\n");
    dataset = data_open(&config, NULL);
    check_values(dataset, "13");
    assert_int_equal(dataset->target_width, 3);
    assert_memory_equal(dataset->targets, expected, sizeof expected);
    dataset_close(dataset);
    config.series.targets = targets;
    config.series.target_count = 2;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->target_width, 2);
    assert_true(dataset->targets[0] == 0.5f && dataset->targets[1] == 1);
    dataset_close(dataset);
    path = data_file_write_text("photos/table.csv", "file,small,tall\none.png,1,high\n");
    data_expect_refusal(&config, NULL, -EINVAL, "table.csv:2", "\"high\" in column 3", NULL);
    config.plain_targets = DATASET_PLAIN_LABELS;
    path = data_file_write_text("photos/table.csv", "file,small,tall\none.png,1,2\n");
    data_expect_refusal(&config, NULL, -EINVAL, "table.csv:2", "\"2\" in column 3", "0 or 1", NULL);
    config.plain_targets = DATASET_PLAIN_PROBABILITIES;
    data_expect_refusal(&config, NULL, -EINVAL, "table.csv:2: the 2 values", "add up to 3", NULL);
}

/* Constants that are given for the channels leave the values to predict to be scaled as ever. */
static void test_values_beside_given_constants(void **state)
{
    static const double mean[] = {0.5, 0.5, 0.5}, deviation[] = {0.25, 0.25, 0.25};
    struct dataset_normalisation constants;
    struct dataset_view all;
    struct dataset *dataset;
    struct error error = {0};

    (void)state;
    config.target = DATASET_TARGET_VALUE;
    path =
        data_file_write_text("photos/table.csv", "file,price\none.png,100000\nthree.png,300000\n");
    dataset = data_open(&config, NULL);
    all = dataset_view_all(dataset);
    assert_int_equal(dataset_normalisation_given(mean, deviation, 3, &all, &constants, &error), 0);
    assert_int_equal(constants.target_groups, 1);
    assert_int_equal(dataset_normalise_targets(&constants, dataset, &error), 0);
    assert_float_equal(dataset->targets[0], -1, 1e-6);
    assert_float_equal(dataset->targets[1], 1, 1e-6);
    dataset_normalisation_release(&constants);
    dataset_close(dataset);
}

/* Values that nobody names are found in another table by the names of the training table. */
static void test_values_by_name(void **state)
{
    static const float expected[] = {1, 0.5f, 0, -2};
    struct dataset *train, *described, *test;

    (void)state;
    config.target = DATASET_TARGET_VALUE;
    path = data_file_write_text("photos/table.csv", "file,red,é\none.png,0,1\ntwo.png,1,0\n");
    write_image("photos/two.png", 20);
    train = data_open(&config, NULL);
    described = data_describe(train);
    assert_string_equal(dataset_target_name(described, 0), "red");
    assert_string_equal(dataset_target_name(described, 1), "é");
    assert_null(dataset_target_name(described, 2));
    path = data_file_write_text("photos/other.csv",
                                "é,file,more,red\n.5,one.png,7,1\n-2,three.png,8,0\n");
    config.image.column = "file";
    for (int i = 0; i < 2; i++) {
        test = data_open(&config, i ? described : train);
        assert_memory_equal(test->targets, expected, sizeof expected);
        dataset_close(test);
    }
    path = data_file_write_text("photos/other.csv", "é,file,green\n.5,one.png,7\n");
    data_expect_refusal(&config, described, -EINVAL, "no column named \"red\"", NULL);
    dataset_close(described);
    dataset_close(train);
    /* names that return do not tell columns apart, but their places do */
    path = data_file_write_text("photos/table.csv", "file,a,a\none.png,0,1\ntwo.png,1,0\n");
    train = data_open(&config, NULL);
    dataset_close(data_open(&config, train));
    path = data_file_write_text("photos/other.csv", "a,file,b\n0,one.png,1\n");
    data_expect_refusal(&config, train, -EINVAL, "two columns named \"a\"", NULL);
    dataset_close(train);
}

static void test_faults(void **state)
{
    static const struct {
        const char *text, *place, *what;
    } faults[] = {{"one.png,a\nfour.png,b\n", "table.csv:2", "photos/four.png"},
                  {"one.png,a\n,b\n", "table.csv:2", "names no image"},
                  {"one.png,a\nb,b\n", "table.csv:2", "not a regular file"},
                  {"one.png,a\nthree.png,\n", "table.csv:2", "no label"},
                  {"one.png,a\nthree.png\n", "table.csv:2", "1"},
                  {"file,label\n", "table.csv", ""},
                  {"one.png\nthree.png\n", "table.csv", "the image and the label"},
                  {"four.png,a\none.png,b\n", "table.csv:1", "photos/four.png"}, /* no header */
                  {"one.png,a\n\"three.png,b\n", "table.csv:2", "quote"}};

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct dataset *dataset = NULL;
        struct error error = {0};

        path = data_file_write_text("photos/table.csv", faults[i].text);
        assert_true(dataset_open(&config, NULL, &dataset, &error) < 0);
        if (!strstr(error.text, faults[i].place) || !strstr(error.text, faults[i].what))
            fail_msg("fault %zu: \"%s\"", i, error.text);
    }
    path = data_file_write("photos/table.csv", "one.png\0,a\nthree.png,b\n", 22);
    data_expect_refusal(&config, NULL, -EINVAL, "table.csv:1, column 1", "byte of zero", NULL);
    path = data_file_write_text("photos/table.csv", "one.png,a\nthree.png,b\n");
    data_file_write_text("photos/three.png", "no image");
    data_expect_refusal(&config, NULL, -EINVAL, "photos/three.png", "neither PNG", NULL);
}

/* Reads all images of `path`, two by two; their paths and brightness are those of `expected`. */
static void check_reading(const struct dataset *train, const char *const *expected,
                          const char *values)
{
    struct image_reader *reader;
    struct dataset *piece;
    struct error error = {0};
    int64_t read = 0;

    if (image_reader_open(&config, train, &reader, &error) < 0)
        fail_msg("%s", error.text);
    while (true) {
        assert_int_equal(image_reader_next(reader, 2, &piece, &error), 0);
        if (!piece)
            break;
        for (int64_t i = 0; i < piece->count; i++, read++) {
            char *shown = image_reader_path(reader, i);

            assert_string_equal(shown, expected[read]);
            assert_int_equal(piece->samples[0][(size_t)i * piece->sample_stride],
                             10 * (values[read] - '0'));
            free(shown);
        }
        dataset_close(piece);
    }
    assert_int_equal(read, strlen(values));
    image_reader_close(reader);
}

/* For predictions: a folder with others in it, a table without labels, one file. */
static void test_new_images(void **state)
{
    char folder[256], one[300], two[300], three[300];
    struct image_reader *reader;
    struct error error = {0};
    struct dataset *train;

    (void)state;
    path = data_file_write_text("photos/table.csv", "file,animal\none.png,cat\nthree.png,dog\n");
    train = data_open(&config, NULL);
    snprintf(folder, sizeof folder, "%s", data_file_path("photos"));
    snprintf(one, sizeof one, "%s/one.png", folder);
    snprintf(two, sizeof two, "%s/b/two, too.png", folder);
    snprintf(three, sizeof three, "%s/three.png", folder);
    config.unlabelled = true;
    path = folder;
    check_reading(train, (const char *const[]){one, three, two}, "132");
    path = two;
    check_reading(train, (const char *const[]){two}, "2");
    path = data_file_write_text("photos/new.csv", "one.png\n\"b/two, too.png\"\none.png\n");
    config.image.column = "file";
    check_reading(train, (const char *const[]){"one.png", "b/two, too.png", "one.png"}, "121");
    /* the folder of the training, beside this table, if it has the first image */
    config.image.folder = "b";
    config.image.folder_beside = true;
    check_reading(train, (const char *const[]){"one.png", "b/two, too.png", "one.png"}, "121");
    path = data_file_write_text("photos/new.csv", "\"two, too.png\"\n");
    check_reading(train, (const char *const[]){"two, too.png"}, "2");
    path = data_file_write_text("photos/new.csv", "file\nfour.png\n");
    assert_int_equal(image_reader_open(&config, train, &reader, &error), -ENOENT);
    assert_non_null(strstr(error.text, "new.csv:2"));
    path = data_file_path("cache");
    assert_int_equal(image_reader_open(&config, train, &reader, &error), -EINVAL);
    assert_non_null(strstr(error.text, "has no image"));
    dataset_close(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_classes, reset),
        cmocka_unit_test_setup(test_values, reset),
        cmocka_unit_test_setup(test_values_beside_given_constants, reset),
        cmocka_unit_test_setup(test_values_by_name, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_new_images, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
