/* test_augmentation_images.c: changes to the bytes of images are functions of seed, epoch and index
 * alone, whatever the batch; each draws within its limits; images of any size survive all of
 * them. What an operation does to pixels is test_image_operations.c's. */
#include "engine/data/augmentation.h"
#include "engine/data/augmentation_images.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 40, SIDE_MAX = 24, BYTES_MAX = 3 * SIDE_MAX * SIDE_MAX };

static struct dataset *dataset;
static struct dataset_normalisation plain;
static float rows[COUNT][BYTES_MAX], scratch[4 * BYTES_MAX];
static int32_t labels[COUNT];

static void images_open(int channels, int height, int width, bool constant)
{
    static uint8_t file[20 + COUNT * BYTES_MAX],
        label_file[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    const uint8_t extents[] = {COUNT, (uint8_t)channels, (uint8_t)height, (uint8_t)width};
    struct dataset_config config = {.format = DATASET_IDX, .path_count = 1};
    const char *path;
    struct error error;
    int bytes = channels * height * width;

    memcpy(file, (const uint8_t[]){0, 0, 8, 4}, 4);
    for (int i = 0; i < 4; i++) {
        memset(file + 4 + 4 * i, 0, 4);
        file[4 + 4 * i + 3] = extents[i];
    }
    for (int i = 0; i < COUNT * bytes; i++)
        file[20 + i] = (uint8_t)(constant ? 10 + i / bytes : i % bytes * 7 + i / bytes * 3);
    path = data_file_write("images", file, 20 + COUNT * (size_t)bytes);
    config.paths = &path;
    config.labels_path = data_file_write("labels", label_file, sizeof label_file);
    dataset = data_open(&config, NULL);
    struct dataset_view all = dataset_view_all(dataset);
    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_NONE, &all, &plain, &error),
                     0);
}

static void images_close(void)
{
    dataset_normalisation_release(&plain);
    dataset_close(dataset);
}

/* Gathers samples first to before first + count as one batch, each into its own row of `rows`. */
static void gather(const struct augmentation *augmentation, uint32_t epoch, int first, int count)
{
    static float batch[COUNT * BYTES_MAX];
    uint32_t indices[COUNT];
    struct error error = {0};
    size_t elements = (size_t)dataset->sample_elements;

    assert_true(augmentation_scratch_bytes(augmentation, dataset) <= sizeof scratch);
    for (int i = 0; i < count; i++)
        indices[i] = (uint32_t)(first + i);
    if (augmentation_gather(augmentation, dataset, &plain, epoch, 0, indices, count, batch, labels,
                            scratch, &error) < 0)
        fail_msg("%s", error.text);
    for (int i = 0; i < count; i++)
        memcpy(rows[first + i], batch + (size_t)i * elements, elements * sizeof *batch);
}

static const struct augmentation all_changes = {.seed = 4,
                                                .crop_scale = 0.2,
                                                .rand_augment = 12,
                                                .brightness = 0.4,
                                                .contrast = 0.4,
                                                .saturation = 0.4,
                                                .hue = 0.3,
                                                .rotation = 40,
                                                .vertical_flip = true,
                                                .crop_padding = 1,
                                                .erasing = 0.5};

static void test_keys(void **state)
{
    static float kept[COUNT][BYTES_MAX];
    struct augmentation other = all_changes;
    size_t bytes;
    int same = 0, same_seed = 0;

    (void)state;
    images_open(3, 20, 24, false);
    bytes = (size_t)dataset->sample_elements * sizeof(float);
    gather(&all_changes, 3, 0, COUNT);
    memcpy(kept, rows, sizeof rows);
    for (int i = COUNT - 1; i >= 0; i--)
        gather(&all_changes, 3, i, 1);
    for (int i = 0; i < COUNT; i++)
        assert_memory_equal(rows[i], kept[i], bytes);
    gather(&all_changes, 4, 0, COUNT);
    for (int i = 0; i < COUNT; i++)
        same += memcmp(rows[i], kept[i], bytes) == 0;
    other.seed = 5;
    gather(&other, 3, 0, COUNT);
    for (int i = 0; i < COUNT; i++)
        same_seed += memcmp(rows[i], kept[i], bytes) == 0;
    assert_int_equal(same, 0);
    assert_int_equal(same_seed, 0);
    images_close();
}

/* Of an image of one colour a part is the image; its brightness is drawn from 0.6 to 1.4. */
static void test_limits(void **state)
{
    static const struct augmentation crop = {.seed = 4, .crop_scale = 0.1};
    static const struct augmentation light = {.seed = 4, .brightness = 0.4};
    float least = 2, most = 0;

    (void)state;
    images_open(1, 9, 7, true);
    gather(&crop, 1, 0, COUNT);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < 63; k++)
            assert_true(rows[i][k] == (float)(10 + i) * plain.factor[0]);
    for (uint32_t epoch = 0; epoch < 50; epoch++) {
        gather(&light, epoch, 0, COUNT);
        float factor = rows[COUNT - 1][0] / plain.factor[0] / (float)(10 + COUNT - 1);

        assert_true(factor > 0.6f - 1 / 49.0f && factor <= 1.4f);
        least = factor < least ? factor : least;
        most = factor > most ? factor : most;
    }
    assert_true(least < 0.75f && most > 1.25f);
    images_close();
}

static void test_any_size(void **state)
{
    static const int sizes[][3] = {{1, 1, 1}, {3, 1, 24}, {3, 24, 1},
                                   {1, 2, 2}, {3, 3, 5},  {3, 24, 24}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct augmentation changes = all_changes;

        changes.crop_padding = 0;
        images_open(sizes[i][0], sizes[i][1], sizes[i][2], false);
        for (uint32_t epoch = 0; epoch < 40; epoch++) {
            changes.rand_augment = 1 + epoch % 30;
            gather(&changes, epoch, 0, COUNT);
            for (int64_t k = 0; k < dataset->sample_elements; k++)
                assert_true(rows[epoch % COUNT][k] >= 0 && rows[epoch % COUNT][k] <= 1);
        }
        images_close();
    }
}

static void test_refusals(void **state)
{
    static const struct augmentation hue = {.hue = 0.1};
    struct error error = {0};

    (void)state;
    images_open(2, 4, 4, false);
    assert_int_equal(augmentation_check(&hue, dataset, &error), -EINVAL);
    assert_non_null(strstr(error.text, "hue needs images of bytes with 1 or 3 channels"));
    assert_true(augmentation_needs_host(&hue));
    images_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_any_size),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
