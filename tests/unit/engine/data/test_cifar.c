/* test_cifar: records of CIFAR's binary version. */
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IMAGE = 3072 };

/* `count` records; pixel p of record i is (first + i + p) % 251, its label (first + i) % 10. */
static const char *write_records(const char *name, int first, int count, int label_bytes)
{
    size_t record = (size_t)label_bytes + IMAGE, size = (size_t)count * record;
    uint8_t *content = calloc(1, size);

    for (int i = 0; i < count; i++) {
        uint8_t *at = content + (size_t)i * record;
        if (label_bytes == 2)
            at[0] = 19;
        at[label_bytes - 1] = (uint8_t)((first + i) % 10);
        for (int p = 0; p < IMAGE; p++)
            at[label_bytes + p] = (uint8_t)((first + i + p) % 251);
    }
    const char *path = data_file_write(name, content, size);
    free(content);
    return path;
}

static void test_several_files(void **state)
{
    static const uint32_t indices[] = {4, 2, 3};
    static float rows[3][IMAGE];

    (void)state;
    for (int label_bytes = 1; label_bytes <= 2; label_bytes++) {
        const char *paths[] = {write_records("batch1", 0, 3, label_bytes),
                               write_records("batch2", 3, 2, label_bytes)};
        struct dataset_config config = {.format = DATASET_CIFAR,
                                        .paths = paths,
                                        .path_count = 2,
                                        .cifar.label_bytes = label_bytes};
        struct dataset *dataset = data_open(&config, NULL);
        struct dataset_view all = dataset_view_all(dataset);
        struct dataset_normalisation normalisation;
        int32_t targets[3];
        struct error error;

        assert_int_equal(dataset->count, 5);
        assert_int_equal(dataset->classes, label_bytes == 1 ? 10 : 100);
        assert_int_equal(dataset->shape[0], 3);
        assert_int_equal(dataset->shape[1], 32);
        dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &normalisation, &error);
        assert_int_equal(dataset_gather(dataset, &normalisation, indices, 3, rows, targets, &error),
                         0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(targets[i], indices[i]);
            for (int p = 0; p < IMAGE; p++)
                assert_float_equal(rows[i][p], (float)(((int)indices[i] + p) % 251) / 255, 1e-7);
        }
        dataset_normalisation_release(&normalisation);
        dataset_close(dataset);
    }
}

/* One mean and one deviation for each colour. */
static void test_standard(void **state)
{
    const char *path = write_records("batch", 0, 4, 1);
    struct dataset_config config = {.format = DATASET_CIFAR, .paths = &path, .path_count = 1};
    struct dataset *dataset = data_open(&config, NULL);
    struct dataset_view all = dataset_view_all(dataset);
    static const uint32_t indices[] = {0, 1, 2, 3};
    struct dataset_normalisation normalisation;
    static float rows[4][3][1024];
    int32_t targets[4];
    struct error error;

    (void)state;
    dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error);
    assert_int_equal(normalisation.groups, 3);
    dataset_gather(dataset, &normalisation, indices, 4, rows, targets, &error);
    for (int c = 0; c < 3; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 4; i++)
            for (int p = 0; p < 1024; p++) {
                sum += rows[i][c][p];
                squares += (double)rows[i][c][p] * rows[i][c][p];
            }
        assert_float_equal(sum / 4096, 0, 1e-5);
        assert_float_equal(squares / 4096, 1, 1e-5);
    }
    dataset_normalisation_release(&normalisation);
    dataset_close(dataset);
}

static void test_refusals(void **state)
{
    const char *path = write_records("batch", 0, 9, 1);
    struct dataset_config config = {.format = DATASET_CIFAR, .paths = &path, .path_count = 1};

    (void)state;
    config.cifar.label_bytes = 2;
    data_expect_refusal(&config, NULL, -EINVAL, "batch", "27657 bytes", "3074", "label_bytes 2",
                        NULL);
    config.cifar.label_bytes = 3;
    data_expect_refusal(&config, NULL, -EINVAL, "label_bytes is 3", NULL);
    config.cifar.label_bytes = 1;
    config.classes = 8;
    data_expect_refusal(&config, NULL, -EINVAL, "label 8 of record 8 (byte 24584)", "8 classes",
                        NULL);
    config.path_count = 0;
    data_expect_refusal(&config, NULL, -EINVAL, "at least one file", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_standard),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
