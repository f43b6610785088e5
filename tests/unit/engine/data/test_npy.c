/* test_npy.c: NumPy arrays as samples, labels and values: all types and versions, and every
 * error. */
#include "engine/data/npy_format.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Writes an array as numpy.save() does: blanks pad the header to a multiple of 64. */
static const char *write_version(const char *name, int version, const char *header,
                                 const void *data, size_t size)
{
    static uint8_t bytes[4096];
    size_t start = version == 1 ? 10 : 12, length = strlen(header);
    size_t padded = (start + length + 1 + 63) / 64 * 64 - start;

    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (uint8_t)version;
    bytes[7] = 0;
    for (size_t i = 8; i < start; i++)
        bytes[i] = (uint8_t)(padded >> (8 * (i - 8)));
    memcpy(bytes + start, header, length);
    bytes[start + padded - 1] = '\n';
    memcpy(bytes + start + padded, data, size);
    return data_file_write(name, bytes, start + padded + size);
}

static const char *write_array(const char *name, const char *descr, const char *shape,
                               const void *data, size_t size)
{
    char header[256];

    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
             shape);
    return write_version(name, 1, header, data, size);
}

#define WRITE(name, descr, shape, ...) \
    write_array(name, descr, shape, &(__VA_ARGS__), sizeof(__VA_ARGS__))

static const char *samples_path;
static char labels_path[512]; /* of y.npy: a copy, because data_file_path() reuses its buffer */
static struct dataset_config config;

static int reset(void **state)
{
    (void)state;
    samples_path =
        WRITE("x.npy", "|u1", "(3, 2, 2)", (uint8_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
    snprintf(labels_path, sizeof labels_path, "%s",
             WRITE("y.npy", "<i8", "(3,)", (int64_t[]){2, 0, 1}));
    config = (struct dataset_config){
        .format = DATASET_NPY, .paths = &samples_path, .path_count = 1, .labels_path = labels_path};
    return 0;
}

/* All samples and targets, not normalised; bytes are divided by 255. */
static void gather(const struct dataset *dataset, float *rows, void *targets)
{
    static const uint32_t indices[] = {0, 1, 2, 3};
    struct dataset_view all = dataset_view_all(dataset);
    struct dataset_normalisation normalisation;
    struct error error;

    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &normalisation, &error), 0);
    assert_int_equal(
        dataset_gather(dataset, &normalisation, indices, dataset->count, rows, targets, &error), 0);
    dataset_normalisation_release(&normalisation);
}

static void test_bytes_stay_mapped(void **state)
{
    struct dataset *dataset = data_open(&config, NULL);
    static const int64_t shape[] = {1, 2, 2};
    static const int32_t labels[] = {2, 0, 1};
    float rows[12];
    int32_t targets[3];

    (void)state;
    assert_int_equal(dataset->count, 3);
    assert_int_equal(dataset->rank, 3);
    assert_memory_equal(dataset->shape, shape, sizeof shape);
    assert_int_equal(dataset->classes, 3);
    assert_int_equal(dataset->element, DATASET_UINT8);
    assert_null(dataset->buffer);
    gather(dataset, rows, targets);
    for (int i = 0; i < 12; i++)
        assert_float_equal(rows[i], (float)(i + 1) / 255, 1e-7);
    assert_memory_equal(targets, labels, sizeof labels);
    dataset_close(dataset);
}

static void test_floats_stay_mapped(void **state)
{
    static const float values[] = {0.5f, -1, 1e-30f, 3, 4, 5};
    struct dataset *dataset;
    float rows[6];
    int32_t targets[3];

    (void)state;
    samples_path = write_array("x.npy", "<f4", "(3, 2)", values, sizeof values);
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->rank, 1);
    assert_int_equal(dataset->shape[0], 2);
    assert_null(dataset->buffer);
    gather(dataset, rows, targets);
    assert_memory_equal(rows, values, sizeof values);
    dataset_close(dataset);
}

/* A header of 10 + 3 bytes puts the floats at an odd address. */
static void test_unaligned_floats_are_copied(void **state)
{
    static const float values[] = {0.5f, -1, 3};
    static const char header[] = "{'descr':'<f4','fortran_order':False,'shape':(3,)}\n";
    uint8_t bytes[10 + sizeof header - 1 + sizeof values] = "\x93NUMPY\x01";
    struct dataset *dataset;
    float rows[3];
    int32_t targets[3];

    (void)state;
    bytes[8] = sizeof header - 1;
    memcpy(bytes + 10, header, sizeof header - 1);
    memcpy(bytes + 10 + sizeof header - 1, values, sizeof values);
    assert_int_not_equal((10 + sizeof header - 1) % 4, 0);
    samples_path = data_file_write("x.npy", bytes, sizeof bytes);
    dataset = data_open(&config, NULL);
    assert_non_null(dataset->buffer);
    assert_int_equal(dataset->mapping_count, 0);
    gather(dataset, rows, targets);
    assert_memory_equal(rows, values, sizeof values);
    dataset_close(dataset);
}

#define CHECK_TYPE(descr, type, ...)                                                 \
    do {                                                                             \
        static const type values[] = {__VA_ARGS__};                                  \
        samples_path = write_array("x.npy", descr, "(3, 1)", values, sizeof values); \
        struct dataset *dataset = data_open(&config, NULL);                          \
        float rows[3];                                                               \
        int32_t targets[3];                                                          \
        gather(dataset, rows, targets);                                              \
        for (int i = 0; i < 3; i++)                                                  \
            assert_true(rows[i] == (float)values[i]);                                \
        dataset_close(dataset);                                                      \
    } while (0)

static void test_types(void **state)
{
    (void)state;
    CHECK_TYPE("<f8", double, 0.1, -1e30, 3);
    CHECK_TYPE("|i1", int8_t, -128, 0, 127);
    CHECK_TYPE("|b1", uint8_t, 0, 1, 1);
    CHECK_TYPE("<i2", int16_t, -32768, 0, 32767);
    CHECK_TYPE("<u2", uint16_t, 1, 2, 65535);
    CHECK_TYPE("<i4", int32_t, INT32_MIN, 7, INT32_MAX);
    CHECK_TYPE("<u4", uint32_t, 1, 2, UINT32_MAX);
    CHECK_TYPE("<i8", int64_t, INT64_MIN, 7, INT64_MAX);
    CHECK_TYPE("<u8", uint64_t, 1, 2, UINT64_MAX);
}

/* Big-endian numbers and arrays in Fortran order are the same samples, whether they would have
 * stayed mapped or not, and so are their labels. */
static void test_orders(void **state)
{
    static const uint8_t big[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0};
    static const float expected[] = {1, -2, 0};
    /* [3][2][2] of bytes: sample i has i, i + 10, i + 20, i + 30 */
    static const uint8_t columns[] = {0, 1, 2, 20, 21, 22, 10, 11, 12, 30, 31, 32};
    static const uint8_t wide[] = {0, 0, 0, 1, 0, 2, 0, 20, 0, 21, 0, 22};
    static const uint8_t labels[] = {0, 2, 0, 0, 0, 1};
    struct dataset *dataset;
    float rows[12];
    int32_t targets[3];

    (void)state;
    samples_path = write_array("x.npy", ">f4", "(3,)", big, sizeof big);
    config.labels_path = write_array("y.npy", ">u2", "(3,)", labels, sizeof labels);
    dataset = data_open(&config, NULL);
    gather(dataset, rows, targets);
    assert_memory_equal(rows, expected, sizeof expected);
    assert_int_equal(targets[0], 2);
    assert_int_equal(targets[1], 0);
    assert_int_equal(targets[2], 1);
    dataset_close(dataset);
    samples_path = write_version(
        "x.npy", 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 2, 2), }", columns, 12);
    dataset = data_open(&config, NULL);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 4; k++)
            assert_int_equal(dataset->samples[0][4 * i + k], i + 10 * k);
    dataset_close(dataset);
    samples_path = write_array("x.npy", "|u1", "(3, 2)", columns, 6); /* stays mapped */
    config.labels_path = write_array("y.npy", ">u2", "(3,)", labels, sizeof labels);
    dataset = data_open(&config, NULL);
    gather(dataset, rows, targets);
    assert_memory_equal(dataset->samples[0], columns, 6);
    assert_int_equal(targets[0], 2);
    dataset_close(dataset);
    samples_path = write_version(
        "x.npy", 1, "{'descr': '>i2', 'fortran_order': True, 'shape': (3, 2), }", wide, 12);
    dataset = data_open(&config, NULL);
    gather(dataset, rows, targets);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            assert_true(rows[2 * i + k] == (float)(i + 20 * k));
    dataset_close(dataset);
}

static void test_half(void **state)
{
    /* 1, -2, the smallest subnormal, 65504 */
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff};
    static const float values[] = {1, -2, 0x1p-24f, 65504};
    static const uint16_t infinite[] = {0x3c00, 0x7c00, 0};
    struct npy_array array = {.type = NPY_FLOAT16, .data = (const uint8_t *)halves};
    float output[4];

    (void)state;
    npy_to_floats(&array, 0, 4, output);
    assert_memory_equal(output, values, sizeof values);
    samples_path = write_array("x.npy", "<f2", "(3,)", infinite, sizeof infinite);
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", "sample 1 is inf", NULL);
}

static void test_versions_and_headers(void **state)
{
    static const char *const headers[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2, 2), }",
        "{\"shape\":(3,2,2),\"descr\":\"<u1\",\"fortran_order\":False}",
        "{ 'fortran_order' : False , 'shape' : ( 3 , 2 , 2 , ) , 'descr' : '=u1' , } ",
    };
    static const uint8_t data[12] = {9};

    (void)state;
    for (int version = 1; version <= 3; version++)
        for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
            struct dataset *dataset;

            samples_path = write_version("x.npy", version, headers[i], data, sizeof data);
            dataset = data_open(&config, NULL);
            assert_int_equal(dataset->count, 3);
            assert_int_equal(dataset->sample_elements, 4);
            dataset_close(dataset);
        }
    /* with one wide dimension, both orders are the same */
    samples_path = write_version(
        "x.npy", 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 1), }", data, 3);
    dataset_close(data_open(&config, NULL));
}

static void test_several_files(void **state)
{
    const char *paths[] = {WRITE("a.npy", "<f8", "(1, 2)", (double[]){1, 2}),
                           WRITE("b.npy", "<f8", "(2, 2)", (double[]){3, 4, 5, 6})};
    struct dataset *dataset;
    float rows[6];
    int32_t targets[3];

    (void)state;
    config.paths = paths;
    config.path_count = 2;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->count, 3);
    gather(dataset, rows, targets);
    for (int i = 0; i < 6; i++)
        assert_true(rows[i] == (float)(i + 1));
    dataset_close(dataset);
    paths[1] = WRITE("b.npy", "<f4", "(2, 2)", (float[]){3, 4, 5, 6});
    data_expect_refusal(&config, NULL, -EINVAL, "b.npy", "float32 [2]", "float64 [2]", NULL);
    paths[1] = WRITE("b.npy", "<f8", "(2, 1)", (double[]){3, 4});
    data_expect_refusal(&config, NULL, -EINVAL, "b.npy", "float64 [1]", "float64 [2]", NULL);
}

/* Images as most NumPy programs store them: channels last. */
static void test_channels_last(void **state)
{
    static uint8_t pixels[3][8][8][3];
    static float rows[3][3][8][8];
    int32_t targets[3];
    struct dataset *dataset;

    (void)state;
    for (size_t i = 0; i < sizeof pixels; i++)
        (&pixels[0][0][0][0])[i] = (uint8_t)(i * 7);
    samples_path = write_array("x.npy", "|u1", "(3, 8, 8, 3)", pixels, sizeof pixels);
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", "[8,8,3]", "layout to hwc", NULL);
    config.layout = DATASET_LAYOUT_CHW;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->shape[0], 8);
    dataset_close(dataset);
    config.layout = DATASET_LAYOUT_HWC;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->shape[0], 3);
    gather(dataset, &rows[0][0][0][0], targets);
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++)
            for (int y = 0; y < 8; y++)
                for (int x = 0; x < 8; x++)
                    assert_float_equal(rows[i][c][y][x], pixels[i][y][x][c] / 255.0, 1e-7);
    dataset_close(dataset);
    samples_path = WRITE("x.npy", "|u1", "(3, 4)", (uint8_t[12]){0});
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", "layout is hwc", "1 dimension", NULL);
}

static void test_shape(void **state)
{
    struct dataset *dataset;

    (void)state;
    config.rank = 2;
    config.shape[0] = 4, config.shape[1] = 1;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->rank, 2);
    assert_int_equal(dataset->shape[0], 4);
    dataset_close(dataset);
    config.shape[1] = 2;
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", "[2,2]", "[4,2]", NULL);
}

/* Of sequences each feature has constants of its own, and a sample may have several labels. */
static void test_sequences(void **state)
{
    struct dataset_normalisation normalisation;
    struct error error = {0};
    struct dataset *dataset;
    struct dataset_view all;
    float row[4];
    int32_t labels[2];

    (void)state;
    samples_path =
        WRITE("x.npy", "<f4", "(3, 2, 2)", (float[]){0, 10, 2, 10, 4, 20, 6, 20, 8, 30, 10, 30});
    snprintf(labels_path, sizeof labels_path, "%s",
             WRITE("y.npy", "<i4", "(3, 2)", (int32_t[]){1, 2, 3, 4, 5, 6}));
    config.layout = DATASET_LAYOUT_SEQUENCE;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->rank, 2);
    assert_int_equal(dataset->shape[0], 2);
    assert_int_equal(dataset->shape[1], 2);
    assert_int_equal(dataset->target_width, 2);
    all = dataset_view_all(dataset);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error), 0);
    assert_int_equal(normalisation.groups, 2);
    assert_true(normalisation.mean[0] == 5 && normalisation.mean[1] == 20);
    assert_int_equal(
        dataset_gather(dataset, &normalisation, &(uint32_t){2}, 1, row, labels, &error), 0);
    assert_true(row[0] == 3 * normalisation.factor[0] && row[1] == 10 * normalisation.factor[1] &&
                row[2] == 5 * normalisation.factor[0] && row[3] == row[1]);
    assert_int_equal(labels[0], 5);
    assert_int_equal(labels[1], 6);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
    samples_path = WRITE("x.npy", "<f4", "(3, 2)", (float[]){0, 1, 2, 3, 4, 5});
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->shape[0], 2);
    assert_int_equal(dataset->shape[1], 1);
    dataset_close(dataset);
    samples_path = WRITE("x.npy", "<f4", "(3,)", (float[]){0, 1, 2});
    data_expect_refusal(&config, NULL, -EINVAL, "layout is sequence", "1 dimensions",
                        (const char *)NULL);
}

/* Padding counts neither in the constants nor in a batch, where it is 0. */
static void test_lengths(void **state)
{
    struct dataset_normalisation normalisation;
    struct error error = {0};
    struct dataset *dataset;
    struct dataset_view all;
    char lengths_path[512], other_path[512];
    float rows[12];
    int32_t labels[3], lengths[2];

    (void)state;
    samples_path =
        WRITE("x.npy", "<f4", "(3, 2, 2)", (float[]){0, 10, 2, 10, 4, 20, 600, -20, 7, 30, 7, 30});
    snprintf(labels_path, sizeof labels_path, "%s",
             WRITE("y.npy", "<i4", "(3,)", (int32_t[]){1, 2, 0}));
    snprintf(lengths_path, sizeof lengths_path, "%s",
             WRITE("lengths.npy", "<i8", "(3,)", (int64_t[]){2, 1, 2}));
    config.lengths_path = lengths_path;
    data_expect_refusal(&config, NULL, -EINVAL, "data has lengths", "layout to sequence",
                        (const char *)NULL);
    config.layout = DATASET_LAYOUT_SEQUENCE;
    dataset = data_open(&config, NULL);
    all = dataset_view_all(dataset);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error), 0);
    assert_true(normalisation.mean[0] == 4 && normalisation.mean[1] == 20);
    assert_int_equal(
        dataset_gather(dataset, &normalisation, (uint32_t[]){1, 2}, 2, rows, labels, &error), 0);
    dataset_gather_lengths(dataset, (uint32_t[]){1, 2}, 2, lengths);
    assert_int_equal(lengths[0], 1);
    assert_int_equal(lengths[1], 2);
    assert_true(rows[0] == 0 && rows[1] == 0 && rows[2] == 0 && rows[3] == 0);
    assert_true(rows[6] == 3 * normalisation.factor[0] && rows[7] == 10 * normalisation.factor[1]);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
    samples_path = WRITE("x.npy", "|u1", "(3, 2, 2)",
                         (uint8_t[]){0, 10, 2, 10, 4, 20, 255, 255, 7, 30, 7, 30});
    dataset = data_open(&config, NULL);
    all = dataset_view_all(dataset);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error), 0);
    assert_true(normalisation.mean[0] == 4 && normalisation.mean[1] == 20);
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
    config.lengths_path = other_path;
    for (int i = 0; i < 4; i++) {
        const char *written = i == 0   ? WRITE("bad.npy", "<i8", "(3,)", (int64_t[]){2, 0, 2})
                              : i == 1 ? WRITE("bad.npy", "<i4", "(3,)", (int32_t[]){2, 1, 3})
                              : i == 2 ? WRITE("bad.npy", "<i4", "(2,)", (int32_t[]){2, 1})
                                       : WRITE("bad.npy", "<f4", "(3,)", (float[]){2, 1, 1});

        snprintf(other_path, sizeof other_path, "%s", written);
        data_expect_refusal(&config, NULL, -EINVAL, "bad.npy",
                            i == 0   ? "sample 1 has 0 steps"
                            : i == 1 ? "sample 2 has 3 steps"
                                     : "3 whole numbers, one for each sample",
                            (const char *)NULL);
    }
}

static void test_values(void **state)
{
    static const float values[] = {1, -2, 0.5f, 4, 5, 6};
    struct dataset *dataset;
    float rows[12], targets[6];

    (void)state;
    config.target = DATASET_TARGET_VALUE;
    write_array("y.npy", "<f4", "(3, 2)", values, sizeof values);
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->target_width, 2);
    gather(dataset, rows, targets);
    assert_memory_equal(targets, values, sizeof values);
    dataset_close(dataset);
    config.target = DATASET_TARGET_CLASS;
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "float32", "whole numbers", NULL);
    config.target = DATASET_TARGET_VALUE;
    WRITE("y.npy", "<f8", "(3,)", (double[]){1, 1e300, 2});
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "sample 1 is inf", NULL);
}

/* A set with fewer labels than the training set's would be read beyond its end. */
static void test_labels_of_another_width(void **state)
{
    struct dataset *train, *described;

    (void)state;
    WRITE("y.npy", "<i4", "(3, 2)", (int32_t[]){0, 1, 1, 0, 0, 1});
    train = data_open(&config, NULL);
    described = data_describe(train);
    dataset_close(data_open(&config, described));
    WRITE("y.npy", "<i4", "(3,)", (int32_t[]){0, 1, 1});
    data_expect_refusal(&config, train, -EINVAL, "y.npy has 1 labels for each sample",
                        "the training data 2", NULL);
    data_expect_refusal(&config, described, -EINVAL, "y.npy has 1 labels", NULL);
    config.unlabelled = true;
    dataset_close(data_open(&config, described));
    dataset_close(described);
    dataset_close(train);
}

static void test_label_faults(void **state)
{
    (void)state;
    WRITE("y.npy", "<i4", "(2,)", (int32_t[]){0, 1});
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy holds 3 samples", "y.npy 2 labels", NULL);
    WRITE("y.npy", "<i4", "()", (int32_t[]){0});
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy holds 3 samples", "y.npy 1 labels", NULL);
    WRITE("y.npy", "<i4", "(3,)", (int32_t[]){0, -1, 1});
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "label -1 of sample 1", NULL);
    WRITE("y.npy", "<u8", "(3,)", (uint64_t[]){0, 1, UINT64_MAX});
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "of sample 2", NULL);
    WRITE("y.npy", "<i4", "(3, 2)", (int32_t[]){0, 0, 0, 0, 0, -1});
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "label -1 of sample 2", NULL);
    WRITE("y.npy", "|u1", "(3,)", (uint8_t[]){0, 9, 1});
    config.classes = 9;
    data_expect_refusal(&config, NULL, -EINVAL, "y.npy", "label 9 of sample 1", "9 classes", NULL);
    config.classes = 10;
    dataset_close(data_open(&config, NULL));
    config.labels_path = NULL;
    data_expect_refusal(&config, NULL, -EINVAL, "a file of labels", NULL);
}

static void refuse(const char *header, const void *data, size_t size, const char *piece)
{
    samples_path = write_version("x.npy", 1, header, data, size);
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", piece, NULL);
}

static void test_faults(void **state)
{
    static const uint8_t data[64] = {0};
    static const float nan_at_5[] = {0, 1, 2, 3, 4, __builtin_nanf("")};

    (void)state;
    refuse("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", data, 24, "type \"|O\"");
    refuse("{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }", data, 24,
           "complex numbers (\"<c8\")");
    refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", data, 12,
           "several fields");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", data, 11, "truncated");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", data, 13, "too long");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4), }", data, 0, "empty array");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3037000500, 3037000500), }", data,
           12, "absurd");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", data, 12,
           "cannot be read");
    refuse("{'descr': '<f4', 'fortran_order': False}", data, 12, "cannot be read");
    refuse("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,), }", data, 12, "\"Maybe");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", data,
           4, "cannot be read");
    refuse("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }", data, 1,
           "5 dimensions");
    refuse("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", data, 1, "no samples");
    samples_path = write_array("x.npy", "<f4", "(3, 2)", nan_at_5, sizeof nan_at_5);
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy", "element 1 of sample 2 is nan", NULL);
    samples_path = data_file_write_text("x.npy", "1,2,3\n");
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy is no .npy file", NULL);
    samples_path = data_file_write("x.npy", "\x93NUMPY\x01", 7);
    data_expect_refusal(&config, NULL, -EINVAL, "x.npy is truncated", NULL);
    samples_path = data_file_write("x.npy", "\x93NUMPY\x07\0\0\0\0\0\0\0", 14);
    data_expect_refusal(&config, NULL, -EINVAL, "version 7.0", NULL);
    samples_path = data_file_write("x.npy", "\x93NUMPY\x01\0\xff\xff{}", 12);
    data_expect_refusal(&config, NULL, -EINVAL, "header takes 65535 bytes", NULL);
}

static void test_sample_weights(void **state)
{
    static const float wanted[] = {0, 1, 0.5f};
    char weights_path[512];
    struct dataset *dataset;

    (void)state;
    snprintf(weights_path, sizeof weights_path, "%s",
             WRITE("w.npy", "<f8", "(3,)", (double[]){0, 1, 0.5}));
    config.weights_path = weights_path;
    dataset = data_open(&config, NULL);
    assert_memory_equal(dataset->sample_weights, wanted, sizeof wanted);
    dataset_close(dataset);
    WRITE("w.npy", "<f4", "(3,)", (float[]){0, 1, -1});
    data_expect_refusal(&config, NULL, -EINVAL, "the weight of sample 2 is -1", (const char *)NULL);
    WRITE("w.npy", "<f4", "(2,)", (float[]){0, 1});
    data_expect_refusal(&config, NULL, -EINVAL, "must hold 3 numbers, one for each sample",
                        (const char *)NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_bytes_stay_mapped, reset),
        cmocka_unit_test_setup(test_floats_stay_mapped, reset),
        cmocka_unit_test_setup(test_unaligned_floats_are_copied, reset),
        cmocka_unit_test_setup(test_types, reset),
        cmocka_unit_test_setup(test_orders, reset),
        cmocka_unit_test_setup(test_half, reset),
        cmocka_unit_test_setup(test_versions_and_headers, reset),
        cmocka_unit_test_setup(test_several_files, reset),
        cmocka_unit_test_setup(test_channels_last, reset),
        cmocka_unit_test_setup(test_shape, reset),
        cmocka_unit_test_setup(test_sequences, reset),
        cmocka_unit_test_setup(test_lengths, reset),
        cmocka_unit_test_setup(test_values, reset),
        cmocka_unit_test_setup(test_labels_of_another_width, reset),
        cmocka_unit_test_setup(test_label_faults, reset),
        cmocka_unit_test_setup(test_faults, reset),
        cmocka_unit_test_setup(test_sample_weights, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
