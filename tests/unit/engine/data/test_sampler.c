/* test_sampler.c: permutations, which depend on seed and epoch alone, and the split. */
#include "base/philox.h"
#include "engine/data/sampler.h"
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_permutation(const uint32_t *order, uint32_t count)
{
    uint8_t *seen = calloc(count + 1, 1);

    for (uint32_t i = 0; i < count; i++) {
        assert_true(order[i] < count);
        assert_int_equal(seen[order[i]]++, 0);
    }
    free(seen);
}

static void test_permutations(void **state)
{
    static uint32_t order[1000];

    (void)state;
    for (uint32_t count = 0; count <= 1000; count += count < 40 ? 1 : 97) {
        sampler_permute(count, 3, order, count);
        check_permutation(order, count);
    }
}

static void test_seed_and_epoch(void **state)
{
    uint32_t first[100], again[100], seed[100], epoch[100];

    (void)state;
    sampler_permute(1, 0, first, 100);
    sampler_permute(1, 0, again, 100);
    sampler_permute(2, 0, seed, 100);
    sampler_permute(1, 1, epoch, 100);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_not_equal(first, seed, sizeof first);
    assert_memory_not_equal(first, epoch, sizeof first);
}

/* Compares with fixed values: if the order changed, every resumed run would change. */
static void test_stability(void **state)
{
    static const uint32_t expected[] = {7, 2, 4, 0, 3, 5, 1, 6};
    uint32_t order[8];

    (void)state;
    sampler_permute(42, 5, order, 8);
    assert_memory_equal(order, expected, sizeof expected);
}

/* All 24 orders of 4 elements are equally frequent: chi-square with 23 degrees of freedom, whose
 * 99.99% quantile is 57. */
static void test_uniformity(void **state)
{
    enum { DRAWS = 48000 };
    int counts[256] = {0};
    double chi_square = 0;

    (void)state;
    for (uint32_t epoch = 0; epoch < DRAWS; epoch++) {
        uint32_t order[4];
        sampler_permute(9, epoch, order, 4);
        counts[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        double expected = DRAWS / 24.0;
        if (counts[i])
            chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    assert_true(chi_square < 57);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

    return (left > right) - (left < right);
}

static void test_split(void **state)
{
    char text[4000] = "";
    struct dataset_config config = {.format = DATASET_CSV, .path_count = 1};

    (void)state;
    for (int i = 0; i < 501; i++)
        strcat(text, "1,0\n");
    const char *path = data_file_write_text("rows.csv", text);
    config.paths = &path;
    struct dataset *dataset = data_open(&config, NULL);
    struct dataset_split split, other;
    struct error error;

    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.1, .seed = 5},
                                   &split, &error),
                     0);
    assert_int_equal(split.train.count, 451);
    assert_int_equal(split.validation.count, 50);
    check_permutation(split.indices, 501);
    for (int64_t i = 1; i < 451; i++)
        assert_true(split.train.indices[i] > split.train.indices[i - 1]);
    for (int64_t i = 1; i < 50; i++)
        assert_true(split.validation.indices[i] > split.validation.indices[i - 1]);
    uint32_t order[501];
    sampler_permute_stream(5, philox_stream(PHILOX_SPLIT, 0), order, 501);
    for (int i = 0; i < 50; i++) /* each of the first 50 drawn samples was held out */
        assert_non_null(bsearch(&order[i], split.validation.indices, 50, sizeof order[0], compare));
    dataset_split(dataset, &(struct dataset_split_config){.fraction = 0.1, .seed = 6}, &other,
                  &error);
    assert_memory_not_equal(split.validation.indices, other.validation.indices, 200);
    dataset_split_release(&other);
    dataset_split(dataset, &(struct dataset_split_config){.fraction = 0.1, .seed = 5}, &other,
                  &error);
    assert_memory_equal(split.indices, other.indices, 501 * sizeof(uint32_t));
    dataset_split_release(&other);
    dataset_split_release(&split);

    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0, .seed = 5}, &split,
                                   &error),
                     0);
    assert_int_equal(split.train.count, 501);
    assert_int_equal(split.validation.count, 0);
    dataset_split_release(&split);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 1e-9, .seed = 5},
                                   &split, &error),
                     0);
    assert_int_equal(split.validation.count, 1);
    dataset_split_release(&split);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.9999, .seed = 5},
                                   &split, &error),
                     0);
    assert_int_equal(split.train.count, 1);
    dataset_split_release(&split);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 1, .seed = 5}, &split,
                                   &error),
                     -EINVAL);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = -0.1, .seed = 5},
                                   &split, &error),
                     -EINVAL);
    dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutations), cmocka_unit_test(test_seed_and_epoch),
        cmocka_unit_test(test_stability),    cmocka_unit_test(test_uniformity),
        cmocka_unit_test(test_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
