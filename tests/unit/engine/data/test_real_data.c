/* test_real_data.c: the public data sets as they are distributed, in the folder TRAIND_DATA. */
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *folder;

static void check_counts(const struct dataset *dataset, const int64_t *expected)
{
    int64_t counts[10] = {0};

    for (int64_t i = 0; i < dataset->count; i++)
        counts[dataset->byte_labels ? dataset->byte_labels[i] : dataset->labels[i]]++;
    assert_memory_equal(counts, expected, sizeof counts);
}

/* Classes as optdigits.names counts them; the first row as the file has it. */
static void test_optdigits(void **state)
{
    static const int64_t train_classes[] = {376, 389, 380, 389, 387, 376, 377, 387, 380, 382};
    static const int64_t test_classes[] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
    const char *train_files[] = {"optdigits/optdigits.tra", "optdigits/optdigits.hol"};
    const char *test_file = "optdigits/optdigits.tes";
    struct dataset_config config = {.format = DATASET_CSV,
                                    .directory = folder,
                                    .paths = train_files,
                                    .path_count = 2,
                                    .classes = 10,
                                    .csv = {.divide_by = 16},
                                    .rank = 3,
                                    .shape = {1, 8, 8}};
    struct dataset *train = data_open(&config, NULL);
    struct dataset *test;

    (void)state;
    config.paths = &test_file;
    config.path_count = 1;
    test = data_open(&config, train);
    assert_int_equal(train->count, 3823);
    assert_int_equal(test->count, 1797);
    check_counts(train, train_classes);
    check_counts(test, test_classes);
    const float *first = (const float *)(const void *)train->samples[0];
    assert_true(first[1] == 1 / 16.0f && first[2] == 6 / 16.0f && first[3] == 15 / 16.0f);
    dataset_close(test);
    dataset_close(train);
}

static void test_fashion_mnist(void **state)
{
    static const int64_t train_classes[] = {6000, 6000, 6000, 6000, 6000,
                                            6000, 6000, 6000, 6000, 6000};
    const char *images = "fashion-mnist/train-images-idx3-ubyte.gz";
    struct dataset_config config = {.format = DATASET_IDX,
                                    .directory = folder,
                                    .paths = &images,
                                    .path_count = 1,
                                    .labels_path = "fashion-mnist/train-labels-idx1-ubyte.gz"};
    struct dataset *train = data_open(&config, NULL);
    struct dataset *test;
    struct dataset_view all = dataset_view_all(train);
    struct dataset_normalisation normalisation;
    struct error error;

    (void)state;
    images = "fashion-mnist/t10k-images-idx3-ubyte.gz";
    config.labels_path = "fashion-mnist/t10k-labels-idx1-ubyte.gz";
    test = data_open(&config, train);
    assert_int_equal(train->count, 60000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(train->classes, 10);
    assert_int_equal(train->shape[1], 28);
    check_counts(train, train_classes);
    /* the widely published constants of Fashion-MNIST: mean 0.2860, deviation 0.3530 */
    dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error);
    assert_true(fabs(normalisation.mean[0] / 255 - 0.2860) < 1e-4);
    assert_true(fabs(1 / normalisation.factor[0] / 255 - 0.3530) < 1e-4);
    dataset_normalisation_release(&normalisation);
    dataset_close(test);
    dataset_close(train);
}

static void test_tinyshakespeare(void **state)
{
    const char *file = "tinyshakespeare/input.txt";
    struct dataset_config config = {.format = DATASET_TEXT,
                                    .directory = folder,
                                    .paths = &file,
                                    .path_count = 1,
                                    .text.context = 16};
    struct dataset *text = data_open(&config, NULL);
    struct dataset_split split;
    struct text_baselines baselines;
    struct error error;

    (void)state;
    assert_int_equal(text->vocabulary.count, 65);
    assert_int_equal(text->symbol_count, 1115394);
    assert_int_equal(dataset_split(text, &(struct dataset_split_config){.fraction = 0.1, .seed = 0},
                                   &split, &error),
                     0);
    assert_int_equal(text_baselines(&split.train, &split.validation, &baselines, &error), 0);
    assert_true(fabs(baselines.uniform - log(65)) < 1e-12);
    assert_true(baselines.bigram > 2.4 && baselines.bigram < 2.6);
    dataset_split_release(&split);
    dataset_close(text);
}

/* The files of cifar-10-binary.tar.gz, if they are in the folder. */
static void test_cifar10(void **state)
{
    static const int64_t train_classes[] = {5000, 5000, 5000, 5000, 5000,
                                            5000, 5000, 5000, 5000, 5000};
    const char *files[] = {"cifar10/data_batch_1.bin", "cifar10/data_batch_2.bin",
                           "cifar10/data_batch_3.bin", "cifar10/data_batch_4.bin",
                           "cifar10/data_batch_5.bin"};
    struct dataset_config config = {
        .format = DATASET_CIFAR, .directory = folder, .paths = files, .path_count = 5};
    static const double means[] = {0.4914, 0.4822, 0.4465}, deviations[] = {0.2470, 0.2435, 0.2616};
    struct dataset_normalisation normalisation;
    struct error error;
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%s/%s", folder, files[0]);
    if (access(path, R_OK) < 0)
        skip();
    struct dataset *train = data_open(&config, NULL);
    struct dataset_view all = dataset_view_all(train);
    assert_int_equal(train->count, 50000);
    check_counts(train, train_classes);
    dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &normalisation, &error);
    for (int c = 0; c < 3; c++) { /* the widely published constants of CIFAR-10 */
        assert_true(fabs(normalisation.mean[c] / 255 - means[c]) < 1e-4);
        assert_true(fabs(1 / normalisation.factor[c] / 255 - deviations[c]) < 1e-4);
    }
    dataset_normalisation_release(&normalisation);
    dataset_close(train);
}

static bool lacks(const char *path)
{
    char full[4096];

    snprintf(full, sizeof full, "%s/%s", folder, path);
    return access(full, R_OK) < 0;
}

/* Transcription factors of GUE: 101 nucleotides each, in tables. */
static void test_gue(void **state)
{
    static const int64_t classes[10] = {16206, 16172};
    const char *path = "gue/tf/0/train.csv";
    struct dataset_config config = {.format = DATASET_CSV_SEQUENCES,
                                    .directory = folder,
                                    .paths = &path,
                                    .path_count = 1,
                                    .sequence.tokens = DATASET_TOKENS_NUCLEOTIDES};
    struct dataset *dataset;

    (void)state;
    if (lacks(path))
        skip();
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->count, 32378);
    assert_int_equal(dataset->shape[0], 101);
    assert_int_equal(dataset_sample_length(dataset, 32377), 101);
    check_counts(dataset, classes);
    dataset_close(dataset);
}

/* Promoters of E. coli and other genes: 81 nucleotides, a file for each class. */
static void test_cnnprom(void **state)
{
    static const int64_t classes[10] = {3000, 839};
    const char *paths[] = {"cnnprom/Ecoli_non_prom.fa", "cnnprom/Ecoli_prom.fa"};
    const char *labels[] = {"0", "1"};
    struct dataset_config config = {.format = DATASET_FASTA,
                                    .directory = folder,
                                    .paths = paths,
                                    .path_count = 2,
                                    .fasta = {.class_of_file = labels, .class_count = 2},
                                    .sequence.tokens = DATASET_TOKENS_NUCLEOTIDES};
    struct dataset *dataset;

    (void)state;
    if (lacks(paths[0]))
        skip();
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset->shape[0], 81);
    check_counts(dataset, classes);
    dataset_close(dataset);
}

/* Hours of a transformer: the parts that are usual for this series. */
static void test_ett(void **state)
{
    const char *path = "ett/ETTh1.csv";
    struct dataset_config config = {
        .format = DATASET_TIME_SERIES,
        .directory = folder,
        .paths = &path,
        .path_count = 1,
        .target = DATASET_TARGET_VALUE,
        .series = {.input = 96, .horizon = 24, .stride = 1, .rows = {0, 11520}}};
    struct series_baselines baselines;
    struct dataset_normalisation constants;
    struct dataset_split split;
    struct dataset *train, *test;
    struct dataset_view view;
    struct error error = {0};

    (void)state;
    if (lacks(path))
        skip();
    train = data_open(&config, NULL);
    config.series.rows[0] = 11520;
    config.series.rows[1] = 14400;
    test = data_open(&config, train);
    assert_int_equal(dataset_split(train,
                                   &(struct dataset_split_config){.fraction = 0.25, .seed = 1},
                                   &split, &error),
                     0);
    assert_int_equal(split.train.count, 8640 - 96 - 24 + 1);
    assert_int_equal(split.validation.count, 2880 - 24 + 1);
    assert_int_equal(test->count, 2880 - 24 + 1);
    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &split.train, &constants, &error),
        0);
    assert_true(fabsf(constants.mean[6] - 17.1283f) < 1e-3f); /* OT, by NumPy */
    assert_int_equal(dataset_normalise_targets(&constants, test, NULL), 0);
    view = dataset_view_all(test);
    baselines = series_baselines(&view, 24);
    assert_true(fabs(baselines.last_mse - 0.034312) < 1e-6); /* by PyTorch */
    assert_true(fabs(baselines.season_mse - 0.045821) < 1e-6);
    dataset_normalisation_release(&constants);
    dataset_split_release(&split);
    dataset_close(test);
    dataset_close(train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optdigits),
        cmocka_unit_test(test_fashion_mnist),
        cmocka_unit_test(test_tinyshakespeare),
        cmocka_unit_test(test_cifar10),
        cmocka_unit_test(test_gue),
        cmocka_unit_test(test_cnnprom),
        cmocka_unit_test(test_ett),
    };

    folder = getenv("TRAIND_DATA");
    if (!folder || access(folder, R_OK) < 0) {
        printf("TRAIND_DATA names no folder with the public data sets\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
