/* test_augmentation.c: draws have the promised distribution and depend on their keys alone, and the
 * written samples are those that were drawn. */
#include "engine/data/augmentation.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The data set: 50 images [2][HEIGHT][WIDTH] whose pixels are all different within an image. */
enum {
    COUNT = 50,
    HEIGHT = 6,
    WIDTH = 9,
    PLANE = HEIGHT * WIDTH,
    ELEMENTS = 2 * PLANE,
    CLASSES = 5
};

static struct dataset *dataset;
static struct dataset_normalisation standard;
static uint8_t raw[COUNT][2][HEIGHT][WIDTH];

static int open_images(void **state)
{
    static uint8_t file[16 + 4 + sizeof raw] = {0, 0, 8, 4};
    static uint8_t labels[8 + COUNT] = {0, 0, 8, 1};
    static const uint32_t extents[] = {COUNT, 2, HEIGHT, WIDTH};
    struct dataset_config config = {.format = DATASET_IDX, .path_count = 1};
    struct error error;

    (void)state;
    for (int i = 0; i < 4; i++)
        file[4 + 4 * i + 3] = (uint8_t)extents[i];
    labels[7] = COUNT;
    for (int i = 0; i < COUNT; i++) {
        labels[8 + i] = (uint8_t)(i % CLASSES);
        for (int p = 0; p < ELEMENTS; p++)
            (&raw[i][0][0][0])[p] = (uint8_t)(1 + (p * 7 + i) % 255);
    }
    memcpy(file + 20, raw, sizeof raw);
    const char *path = data_file_write("images", file, sizeof file);
    config.paths = &path;
    config.labels_path = data_file_write("labels", labels, sizeof labels);
    dataset = data_open(&config, NULL);
    struct dataset_view all = dataset_view_all(dataset);
    return dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &standard, &error);
}

static int close_images(void **state)
{
    (void)state;
    dataset_normalisation_release(&standard);
    dataset_close(dataset);
    return 0;
}

static float rows[COUNT][2][HEIGHT][WIDTH], scratch[ELEMENTS];

/* Gathers all samples in the order of the set, as the batch at `position` of the epoch. */
static void gather_all(const struct augmentation *augmentation, uint32_t epoch, int64_t position,
                       void *targets)
{
    uint32_t indices[COUNT];
    struct error error = {0};

    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = i;
    if (augmentation_gather(augmentation, dataset, &standard, epoch, position, indices, COUNT, rows,
                            targets, scratch, &error) < 0)
        fail_msg("%s", error.text);
}

/* The normalised pixel, or that of the frame of raw zeros around the image. */
static float pixel(int image, int channel, int y, int x)
{
    bool inside = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH;

    return ((inside ? (float)raw[image][channel][y][x] : 0) - standard.mean[channel]) *
           standard.factor[channel];
}

static bool row_is(int image, int down, int right, bool flip)
{
    for (int c = 0; c < 2; c++)
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++)
                if (rows[image][c][y][flip ? WIDTH - 1 - x : x] !=
                    pixel(image, c, y + down, x + right))
                    return false;
    return true;
}

static void test_nothing(void **state)
{
    static const struct augmentation none = {.seed = 3};
    static float plain[COUNT][ELEMENTS];
    int32_t targets[COUNT], plain_targets[COUNT];
    uint32_t indices[COUNT];
    struct error error;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++)
        indices[i] = i;
    gather_all(&none, 0, 0, targets);
    assert_int_equal(
        dataset_gather(dataset, &standard, indices, COUNT, plain, plain_targets, &error), 0);
    assert_memory_equal(rows, plain, sizeof plain);
    assert_memory_equal(targets, plain_targets, sizeof targets);
    assert_true(augmentation_is_none(&none));
}

/* Checks a binomial count within 5 standard deviations. */
static void expect_count(int count, int trials, double probability)
{
    double mean = trials * probability, deviation = sqrt(mean * (1 - probability));

    if (fabs(count - mean) > 5 * deviation)
        fail_msg("%d of %d, expected %g +- %g", count, trials, mean, deviation);
}

/* Every sample is its image at one of the 5 x 5 places, and half of them are mirrored. Each place
 * and each side is equally likely. */
static void test_crop_and_flip(void **state)
{
    enum { PADDING = 2, PLACES = 2 * PADDING + 1, EPOCHS = 200 };
    static const struct augmentation augmentation = {
        .seed = 11, .crop_padding = PADDING, .horizontal_flip = true};
    static int found[2][PLACES][PLACES];
    int32_t targets[COUNT];

    (void)state;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        gather_all(&augmentation, epoch, 0, targets);
        for (int i = 0; i < COUNT; i++) {
            int matches = 0;

            assert_int_equal(targets[i], i % CLASSES);
            for (int place = 0; place < 2 * PLACES * PLACES; place++) {
                int down = place / PLACES % PLACES, right = place % PLACES,
                    flip = place / PLACES / PLACES;

                if (row_is(i, down - PADDING, right - PADDING, flip)) {
                    matches++;
                    found[flip][down][right]++;
                }
            }
            assert_int_equal(matches, 1);
        }
    }
    for (int place = 0; place < 2 * PLACES * PLACES; place++)
        expect_count((&found[0][0][0])[place], EPOCHS * COUNT, 1.0 / (2 * PLACES * PLACES));
}

static void test_flip_alone(void **state)
{
    static const struct augmentation augmentation = {.seed = 5, .horizontal_flip = true};
    int32_t targets[COUNT];
    int flipped = 0;

    (void)state;
    for (uint32_t epoch = 0; epoch < 100; epoch++) {
        gather_all(&augmentation, epoch, 0, targets);
        for (int i = 0; i < COUNT; i++) {
            assert_true(row_is(i, 0, 0, false) || row_is(i, 0, 0, true));
            flipped += row_is(i, 0, 0, true);
        }
    }
    expect_count(flipped, 100 * COUNT, 0.5);
}

/* The hole is zero in all channels, and is equally likely around each pixel. */
static void test_cutout(void **state)
{
    enum { SIDE = 3, EPOCHS = 200 };
    static const struct augmentation augmentation = {.seed = 7, .cutout_side = SIDE};
    static int found[HEIGHT][WIDTH];
    int32_t targets[COUNT];

    (void)state;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        gather_all(&augmentation, epoch, 0, targets);
        for (int i = 0; i < COUNT; i++) {
            int matches = 0;

            for (int place = 0; place < PLANE; place++) {
                int row = place / WIDTH, column = place % WIDTH;
                bool same = true;

                for (int p = 0; p < PLANE && same; p++) {
                    int y = p / WIDTH, x = p % WIDTH;
                    bool hole = abs(y - row) <= SIDE / 2 && abs(x - column) <= SIDE / 2;

                    for (int c = 0; c < 2; c++)
                        same &= rows[i][c][y][x] == (hole ? 0 : pixel(i, c, y, x));
                }
                matches += same;
                found[row][column] += same;
            }
            assert_int_equal(matches, 1);
        }
    }
    for (int place = 0; place < PLANE; place++)
        expect_count((&found[0][0])[place], EPOCHS * COUNT, 1.0 / PLANE);
}

/* The keys are seed, epoch and index alone: neither the place in the batch nor that of the batch in
 * the epoch. */
static void test_keys(void **state)
{
    struct augmentation augmentation = {
        .seed = 1, .crop_padding = 3, .horizontal_flip = true, .cutout_side = 4};
    static float first[COUNT][ELEMENTS], single[ELEMENTS];
    int32_t targets[COUNT];
    struct error error;

    (void)state;
    gather_all(&augmentation, 4, 0, targets);
    memcpy(first, rows, sizeof first);
    gather_all(&augmentation, 4, 128, targets);
    assert_memory_equal(rows, first, sizeof first);
    for (uint32_t i = COUNT; i-- > 0;) {
        assert_int_equal(augmentation_gather(&augmentation, dataset, &standard, 4, 999, &i, 1,
                                             single, targets, scratch, &error),
                         0);
        assert_memory_equal(single, first[i], sizeof single);
    }
    gather_all(&augmentation, 5, 0, targets);
    assert_memory_not_equal(rows, first, sizeof first);
    augmentation.seed = 2;
    gather_all(&augmentation, 4, 0, targets);
    assert_memory_not_equal(rows, first, sizeof first);
}

static void test_mixup(void **state)
{
    static const struct augmentation augmentation = {.seed = 9, .mixup_alpha = 0.4};
    static float targets[COUNT][CLASSES];

    (void)state;
    assert_true(augmentation_is_soft(&augmentation));
    assert_int_equal(augmentation_target_bytes(&augmentation, dataset), CLASSES * sizeof(float));
    assert_int_equal(augmentation_scratch_bytes(&augmentation, dataset), sizeof scratch);
    for (int64_t position = 0; position < 20; position++) {
        float share = augmentation_mixup_share(&augmentation, 3, position);

        gather_all(&augmentation, 3, position, targets);
        for (int i = 0; i < COUNT; i++) {
            int other = i ? i - 1 : COUNT - 1;

            for (int p = 0; p < ELEMENTS; p++) {
                int c = p / PLANE, y = p % PLANE / WIDTH, x = p % WIDTH;
                double mixed =
                    (double)share * pixel(i, c, y, x) + (1 - (double)share) * pixel(other, c, y, x);

                assert_float_equal((&rows[i][0][0][0])[p], mixed, 1e-5);
            }
            for (int k = 0; k < CLASSES; k++)
                assert_float_equal(
                    targets[i][k],
                    (k == i % CLASSES ? share : 0) + (k == other % CLASSES ? 1 - share : 0), 1e-6);
        }
    }
}

/* Beta(alpha, alpha) has mean 1/2 and variance 1 / (4 (2 alpha + 1)). The share below 1/10 is
 * compared where the distribution function is known: arcsine for 1/2, uniform for 1. */
static void test_mixup_shares(void **state)
{
    static const double alphas[] = {0.01, 0.2, 0.5, 1, 4};
    enum { DRAWS = 40000 };

    (void)state;
    for (size_t a = 0; a < sizeof alphas / sizeof alphas[0]; a++) {
        struct augmentation augmentation = {.seed = 21, .mixup_alpha = alphas[a]};
        double sum = 0, squares = 0, variance = 1 / (4 * (2 * alphas[a] + 1));
        int low = 0;

        for (int i = 0; i < DRAWS; i++) {
            double share = augmentation_mixup_share(&augmentation, (uint32_t)(i % 7), i) - 0.5;

            assert_true(share >= -0.5 && share <= 0.5);
            sum += share;
            squares += share * share;
            low += share < -0.4;
        }
        assert_float_equal(sum / DRAWS, 0, 5 * sqrt(variance / DRAWS));
        assert_float_equal(squares / DRAWS, variance, 5 * 0.25 / sqrt(DRAWS));
        if (alphas[a] == 0.5)
            expect_count(low, DRAWS, 2 / M_PI * asin(sqrt(0.1)));
        if (alphas[a] == 1)
            expect_count(low, DRAWS, 0.1);
    }
}

static void test_mixup_of_one(void **state)
{
    static const struct augmentation augmentation = {.seed = 9, .mixup_alpha = 0.4};
    uint32_t index = 3;
    float row[ELEMENTS], target[CLASSES];
    struct error error;

    (void)state;
    assert_int_equal(augmentation_gather(&augmentation, dataset, &standard, 0, 0, &index, 1, row,
                                         target, scratch, &error),
                     0);
    for (int p = 0; p < ELEMENTS; p++)
        assert_float_equal(row[p], pixel(3, p / PLANE, p % PLANE / WIDTH, p % WIDTH), 1e-6);
    for (int k = 0; k < CLASSES; k++)
        assert_float_equal(target[k], k == 3, 1e-6);
}

/* torch.nn.CrossEntropyLoss(label_smoothing=0.1): 0.9 one-hot + 0.1 / classes */
static void test_label_smoothing(void **state)
{
    struct augmentation augmentation = {.seed = 9, .label_smoothing = 0.1};
    static float targets[COUNT][CLASSES], mixed[COUNT][CLASSES];

    (void)state;
    gather_all(&augmentation, 0, 0, targets);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < CLASSES; k++)
            assert_float_equal(targets[i][k], 0.02 + (k == i % CLASSES ? 0.9 : 0), 1e-7);
    assert_true(row_is(7, 0, 0, false));
    augmentation.mixup_alpha = 1;
    gather_all(&augmentation, 0, 0, mixed);
    augmentation.label_smoothing = 0;
    gather_all(&augmentation, 0, 0, targets);
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < CLASSES; k++)
            assert_float_equal(mixed[i][k], 0.9 * targets[i][k] + 0.02, 1e-6);
}

static void test_label_noise(void **state)
{
    enum { SAMPLES = 60000, CLASSES_HERE = 10 };
    struct augmentation augmentation = {.seed = 42, .label_noise = 0.2};
    static int counts[CLASSES_HERE][CLASSES_HERE];
    int32_t targets[COUNT], again[COUNT];
    int changed = 0, agree = 0;

    (void)state;
    for (int64_t i = 0; i < SAMPLES; i++) {
        int32_t label = (int32_t)(i % CLASSES_HERE);
        int32_t noisy = augmentation_label(&augmentation, CLASSES_HERE, i, label);

        assert_true(noisy >= 0 && noisy < CLASSES_HERE);
        changed += noisy != label;
        counts[label][noisy]++;
    }
    expect_count(changed, SAMPLES, 0.2);
    for (int a = 0; a < CLASSES_HERE; a++)
        for (int b = 0; b < CLASSES_HERE; b++)
            expect_count(counts[a][b], SAMPLES / CLASSES_HERE, a == b ? 0.8 : 0.2 / 9);
    /* they are the same in every epoch and batch */
    gather_all(&augmentation, 0, 0, targets);
    gather_all(&augmentation, 8, 64, again);
    assert_memory_equal(targets, again, sizeof targets);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(targets[i], augmentation_label(&augmentation, CLASSES, i, i % CLASSES));
    assert_true(row_is(7, 0, 0, false));
    /* another seed changes other labels: both change 4% */
    for (int64_t i = 0; i < SAMPLES; i++) {
        struct augmentation other = {.seed = 43, .label_noise = 0.2};

        agree +=
            augmentation_label(&augmentation, 10, i, 0) && augmentation_label(&other, 10, i, 0);
    }
    expect_count(agree, SAMPLES, 0.04);
}

static void test_vertical_flip(void **state)
{
    static const struct augmentation augmentation = {.seed = 5, .vertical_flip = true};
    int32_t labels[COUNT];
    int turned = 0;

    (void)state;
    gather_all(&augmentation, 2, 0, labels);
    for (int i = 0; i < COUNT; i++) {
        bool upside_down = rows[i][0][0][0] == pixel(i, 0, HEIGHT - 1, 0);

        turned += upside_down;
        for (int c = 0; c < 2; c++)
            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++)
                    assert_true(rows[i][c][y][x] ==
                                pixel(i, c, upside_down ? HEIGHT - 1 - y : y, x));
    }
    expect_count(turned, COUNT, 0.5);
}

/* A box becomes 0 in all channels; the rest stays. */
static void test_erasing(void **state)
{
    static const struct augmentation augmentation = {.seed = 5, .erasing = 0.4};
    int32_t labels[COUNT];
    int erased = 0, images = 0;

    (void)state;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        gather_all(&augmentation, epoch, 0, labels);
        for (int i = 0; i < COUNT; i++, images++) {
            int top = HEIGHT, bottom = -1, left = WIDTH, right = -1, count = 0;

            for (int y = 0; y < HEIGHT; y++)
                for (int x = 0; x < WIDTH; x++) {
                    if (rows[i][0][y][x] == pixel(i, 0, y, x))
                        continue;
                    assert_true(rows[i][0][y][x] == 0 && rows[i][1][y][x] == 0);
                    top = y < top ? y : top;
                    bottom = y > bottom ? y : bottom;
                    left = x < left ? x : left;
                    right = x > right ? x : right;
                    count++;
                }
            if (count)
                assert_int_equal(count, (bottom - top + 1) * (right - left + 1));
            assert_true(count < PLANE / 2);
            erased += count > 0;
        }
    }
    expect_count(erased, images, 0.4);
}

/* Targets are mixed by the share of the pixels that come from the image before. */
static void test_cutmix(void **state)
{
    static const struct augmentation augmentation = {.seed = 9, .cutmix_alpha = 1};
    static float targets[COUNT][CLASSES];
    int cut = 0;

    (void)state;
    for (int64_t position = 0; position < 40; position++) {
        gather_all(&augmentation, 1, position, targets);
        for (int i = 0; i < COUNT; i++) {
            int before = (i + COUNT - 1) % COUNT, own = 0;

            for (int p = 0; p < PLANE; p++) {
                int y = p / WIDTH, x = p % WIDTH;
                bool kept = rows[i][0][y][x] == pixel(i, 0, y, x);

                assert_true(kept || rows[i][0][y][x] == pixel(before, 0, y, x));
                assert_true(rows[i][1][y][x] == pixel(kept ? i : before, 1, y, x));
                own += kept;
            }
            assert_float_equal(targets[i][i % CLASSES], (double)own / PLANE, 1e-6);
            assert_float_equal(targets[i][before % CLASSES], 1 - (double)own / PLANE, 1e-6);
            cut += own < PLANE;
        }
    }
    assert_true(cut > COUNT * 20);
}

static void expect_refusal(struct augmentation augmentation, const struct dataset *set,
                           const char *piece)
{
    struct error error = {0};

    assert_int_equal(augmentation_check(&augmentation, set, &error), -EINVAL);
    if (!strstr(error.text, piece))
        fail_msg("\"%s\" is not in \"%s\"", piece, error.text);
}

static void test_refusals(void **state)
{
    const char *path = data_file_write_text("rows.csv", "1,2,0\n3,4,1\n");
    struct dataset_config config = {.format = DATASET_CSV, .paths = &path, .path_count = 1};
    struct dataset *table = data_open(&config, NULL);
    uint32_t beyond = COUNT;
    int32_t target;
    struct error error = {0};

    (void)state;
    expect_refusal((struct augmentation){.crop_padding = 1}, table,
                   "random_crop needs images [channels,height,width], but the samples have the "
                   "shape [2]");
    expect_refusal((struct augmentation){.horizontal_flip = true}, table, "horizontal_flip needs");
    expect_refusal((struct augmentation){.cutout_side = 1}, table, "cutout needs");
    expect_refusal((struct augmentation){.crop_padding = HEIGHT}, dataset, "random_crop:6");
    assert_int_equal(augmentation_check(&(struct augmentation){.mixup_alpha = 1}, table, &error),
                     0);
    dataset_close(table);
    config.target = DATASET_TARGET_VALUE;
    table = data_open(&config, NULL);
    expect_refusal((struct augmentation){.mixup_alpha = 1}, table, "need classes");
    expect_refusal((struct augmentation){.label_noise = 0.1}, table, "need classes");
    dataset_close(table);
    assert_int_equal(augmentation_gather(&(struct augmentation){.horizontal_flip = true}, dataset,
                                         &standard, 0, 0, &beyond, 1, rows, &target, scratch,
                                         &error),
                     -ERANGE);
    assert_non_null(strstr(error.text, "only 50"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_crop_and_flip),
        cmocka_unit_test(test_flip_alone),
        cmocka_unit_test(test_cutout),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_mixup),
        cmocka_unit_test(test_mixup_shares),
        cmocka_unit_test(test_mixup_of_one),
        cmocka_unit_test(test_label_smoothing),
        cmocka_unit_test(test_label_noise),
        cmocka_unit_test(test_vertical_flip),
        cmocka_unit_test(test_erasing),
        cmocka_unit_test(test_cutmix),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_images, close_images);
}
