/* test_loader.c: the batches are the same with any number of threads, in any epoch and from any
 * position; limits, errors and the end. */
#include "engine/data/loader.h"
#include "engine/data/sampler.h"
#include "engine/data/split.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROWS = 1003, BATCH = 32, THREAD_COUNTS = 4 };
static const int thread_counts[THREAD_COUNTS] = {0, 1, 2, 4};

static struct dataset *dataset;
static struct dataset_normalisation normalisation;
static struct dataset_split split;

/* Row i holds i and 2 i; its label is i modulo 7. */
static int open_rows(void **state)
{
    char *text = malloc(ROWS * 24), *at = text;
    struct dataset_config config = {.format = DATASET_CSV, .path_count = 1};
    struct error error;

    (void)state;
    for (int i = 0; i < ROWS; i++)
        at += sprintf(at, "%d,%d,%d\n", i, 2 * i, i % 7);
    const char *path = data_file_write_text("rows.csv", text);
    free(text);
    config.paths = &path;
    dataset = data_open(&config, NULL);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.1, .seed = 3},
                                   &split, &error),
                     0);
    return dataset_normalisation_measure(DATASET_NORMALISE_NONE, &split.train, &normalisation,
                                         &error);
}

static int close_rows(void **state)
{
    (void)state;
    dataset_normalisation_release(&normalisation);
    dataset_split_release(&split);
    dataset_close(dataset);
    return 0;
}

static struct loader *create(struct loader_config *config, void **memory)
{
    struct loader *loader = NULL;
    struct error error = {0};

    config->normalisation = &normalisation;
    config->batch = config->batch ? config->batch : BATCH;
    *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(config));
    if (loader_create(config, *memory, &loader, &error) < 0)
        fail_msg("%s", error.text);
    return loader;
}

static void destroy(struct loader *loader, void *memory)
{
    loader_free(loader);
    free(memory);
}

/* Reads to the end of the epoch, and compares each row with the expected order. `held` batches are
 * kept. */
static void check_epoch(struct loader *loader, const struct dataset_view *view,
                        const uint32_t *order, int64_t position, int held)
{
    struct loader_batch batch;
    struct error error = {0};
    int holding = 0;

    for (;;) {
        if (loader_next(loader, &batch, &error) < 0)
            fail_msg("%s", error.text);
        if (batch.count == 0)
            break;
        const float *samples = batch.samples;
        const int32_t *targets = batch.targets;
        assert_int_equal((uintptr_t)samples % LOADER_ALIGNMENT, 0);
        assert_int_equal((uintptr_t)targets % LOADER_ALIGNMENT, 0);
        assert_int_equal(batch.position, position);
        int64_t left = view->count - position;
        assert_int_equal(batch.count, left < BATCH ? left : BATCH);
        for (int64_t i = 0; i < batch.count; i++, position++) {
            int64_t row = dataset_view_index(view, order ? order[position] : position);
            assert_true(samples[2 * i] == (float)row && samples[2 * i + 1] == 2 * (float)row);
            assert_int_equal(targets[i], row % 7);
        }
        if (++holding > held) {
            loader_release(loader);
            holding--;
        }
    }
    assert_int_equal(position, view->count);
    while (holding-- > 0)
        loader_release(loader);
}

/* All classes occur about equally often, and every thread count gives the same epoch. */
static void test_balanced_epochs(void **state)
{
    static uint32_t order[ROWS], other[ROWS], chosen[ROWS];
    struct class_balance *balance = NULL;
    struct dataset_view view = split.train;
    int64_t counts[7] = {0}, kept = 0;
    struct error error = {0};

    (void)state;
    for (int64_t i = 0; i < view.count; i++) /* few samples of the classes 4 to 6, and none of 3 */
        if (view.indices[i] % 7 < 3 || (view.indices[i] % 7 > 3 && view.indices[i] % 97 < 5))
            chosen[kept++] = view.indices[i];
    view.indices = chosen;
    view.count = kept;
    assert_int_equal(class_balance_create(&view, &balance, &error), 0);
    assert_int_equal(balance->classes, 6);
    class_balance_draw(balance, 11, 4, order, view.count);
    class_balance_draw(balance, 11, 5, other, view.count);
    assert_memory_not_equal(order, other, (size_t)view.count * sizeof *order);
    for (int64_t i = 0; i < view.count; i++)
        counts[dataset_view_index(&view, order[i]) % 7]++;
    for (int class = 0; class < 7; class ++) { /* within 5 standard deviations */
        double share = (double)view.count / 6, deviation = sqrt(share * 5 / 6);

        assert_true(class == 3 ? counts[class] == 0
                               : fabs((double)counts[class] - share) < 5 * deviation);
    }
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {.view = view,
                                       .shuffle = true,
                                       .balance = balance,
                                       .seed = 11,
                                       .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);

        assert_int_equal(loader_begin_epoch(loader, 4, 0, &error), 0);
        check_epoch(loader, &view, order, 0, 1);
        destroy(loader, memory);
    }
    class_balance_free(balance);
}

static void test_threads_agree(void **state)
{
    static uint32_t order[ROWS];

    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {
            .view = split.train, .shuffle = true, .seed = 11, .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct error error;

        assert_int_equal(loader_batches_per_epoch(loader), (split.train.count + BATCH - 1) / BATCH);
        for (uint32_t epoch = 0; epoch < 20; epoch++) {
            sampler_permute(11, epoch, order, (uint32_t)split.train.count);
            assert_int_equal(loader_begin_epoch(loader, epoch, 0, &error), 0);
            check_epoch(loader, &split.train, order, 0, (int)epoch % LOADER_HELD_MAX);
        }
        destroy(loader, memory);
    }
}

/* The samples that an epoch leaves out follow from its order. */
static void test_the_last_batch_is_left_out(void **state)
{
    static uint32_t order[ROWS];
    struct dataset_view whole = split.train;

    (void)state;
    whole.count -= whole.count % BATCH;
    assert_int_not_equal(whole.count, split.train.count);
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {.view = split.train,
                                       .shuffle = true,
                                       .drop_last = true,
                                       .seed = 11,
                                       .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct error error;

        assert_int_equal(loader_batches_per_epoch(loader), split.train.count / BATCH);
        for (uint32_t epoch = 0; epoch < 5; epoch++) {
            sampler_permute(11, epoch, order, (uint32_t)split.train.count);
            assert_int_equal(loader_begin_epoch(loader, epoch, 0, &error), 0);
            check_epoch(loader, &whole, order, 0, (int)epoch % LOADER_HELD_MAX);
        }
        assert_int_equal(loader_begin_epoch(loader, 9, whole.count, &error), 0);
        check_epoch(loader, &whole, order, whole.count, 0);
        assert_int_equal(loader_begin_epoch(loader, 9, split.train.count, &error), -EINVAL);
        destroy(loader, memory);
    }
}

/* Begins in the middle of epochs, in earlier epochs, and drops batches that were prepared ahead. */
static void test_any_position(void **state)
{
    static uint32_t order[ROWS];

    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {
            .view = split.train, .shuffle = true, .seed = 4, .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct loader_batch batch;
        struct error error;

        for (int round = 0; round < 600; round++) {
            uint32_t epoch = (uint32_t)(round * 7 % 5);
            int64_t position = round % 3 == 2 ? split.train.count : round % 29 * BATCH;

            assert_int_equal(loader_begin_epoch(loader, epoch, position, &error), 0);
            if (round % 2) { /* leaves the epoch early, with a batch held and slots just released */
                for (int i = 0; i < round % 7; i++) {
                    loader_next(loader, &batch, &error);
                    loader_release(loader);
                }
                loader_next(loader, &batch, &error);
                continue;
            }
            sampler_permute(4, epoch, order, (uint32_t)split.train.count);
            check_epoch(loader, &split.train, order, position, 0);
            assert_int_equal(loader_next(loader, &batch, &error), 0);
            assert_int_equal(batch.count, 0);
        }
        assert_int_equal(loader_begin_epoch(loader, 0, 5, &error), -EINVAL);
        assert_int_equal(loader_begin_epoch(loader, 0, -BATCH, &error), -EINVAL);
        assert_int_equal(loader_begin_epoch(loader, 0, 2 * ROWS, &error), -EINVAL);
        destroy(loader, memory);
    }
}

/* Rows are large, so that threads are gathering whenever an epoch is abandoned. None of its samples
 * may get into the next epoch. */
static void test_abandoned_epochs(void **state)
{
    enum { COUNT = 512, WIDTH = 4096, ROUNDS = 300, LOOKED_AT = 12 };
    uint8_t *images = calloc(1, 12 + COUNT * WIDTH), labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 2, 0};
    static uint32_t order[COUNT];

    (void)state;
    memcpy(images, (uint8_t[]){0, 0, 8, 2, 0, 0, 2, 0, 0, 0, 16, 0}, 12);
    for (int i = 0; i < COUNT; i++)
        memset(images + 12 + i * WIDTH, i % 251, WIDTH);
    const char *path = data_file_write("wide", images, 12 + COUNT * WIDTH);
    struct dataset_config set_config = {.format = DATASET_IDX,
                                        .paths = &path,
                                        .path_count = 1,
                                        .labels_path =
                                            data_file_write("wide-labels", labels, sizeof labels)};
    free(images);
    struct dataset *set = data_open(&set_config, NULL);
    for (int t = 1; t < THREAD_COUNTS; t++) {
        struct loader_config config = {
            .view = dataset_view_all(set), .shuffle = true, .seed = 8, .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct error error;

        for (uint32_t round = 0; round < ROUNDS; round++) {
            sampler_permute(8, round, order, COUNT);
            assert_int_equal(loader_begin_epoch(loader, round, 0, &error), 0);
            for (int b = 0; b < (int)round % LOOKED_AT + 1; b++) {
                struct loader_batch batch;
                assert_int_equal(loader_next(loader, &batch, &error), 0);
                for (int i = 0; i < BATCH; i++) {
                    float expected = (float)(order[b * BATCH + i] % 251);
                    const float *row = (const float *)batch.samples + i * WIDTH;
                    assert_true(row[0] == expected && row[WIDTH / 2] == expected &&
                                row[WIDTH - 1] == expected);
                }
                loader_release(loader);
            }
        }
        destroy(loader, memory);
    }
    dataset_close(set);
}

/* With every augmentation, mixed pairs of the batch included, the bytes are the same with any
 * number of threads, and from the middle of an epoch on. */
static void test_augmented_threads_agree(void **state)
{
    enum { IMAGES = 200, SIDE = 12, SIZE = 3 * SIDE * SIDE, CLASSES = 6 };
    static uint8_t images[20 + IMAGES * SIZE] = {
        0, 0, 8, 4, [7] = IMAGES, [11] = 3, [15] = SIDE, [19] = SIDE};
    static uint8_t labels[8 + IMAGES] = {0, 0, 8, 1, [7] = IMAGES};
    static float samples[2][IMAGES][SIZE], targets[2][IMAGES][CLASSES];
    static const struct augmentation augmentation = {.seed = 8,
                                                     .label_noise = 0.3,
                                                     .crop_padding = 3,
                                                     .horizontal_flip = true,
                                                     .cutout_side = 5,
                                                     .mixup_alpha = 0.5,
                                                     .label_smoothing = 0.1};
    struct dataset_config set_config = {.format = DATASET_IDX, .path_count = 1};

    (void)state;
    for (int i = 0; i < IMAGES * SIZE; i++)
        images[20 + i] = (uint8_t)(i * 31 >> 3);
    for (int i = 0; i < IMAGES; i++)
        labels[8 + i] = (uint8_t)(i % CLASSES);
    const char *path = data_file_write("images", images, sizeof images);
    set_config.paths = &path;
    set_config.labels_path = data_file_write("labels", labels, sizeof labels);
    struct dataset *set = data_open(&set_config, NULL);

    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {.view = dataset_view_all(set),
                                       .shuffle = true,
                                       .seed = 8,
                                       .threads = thread_counts[t],
                                       .augmentation = &augmentation};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct loader_batch batch;
        struct error error;

        for (uint32_t epoch = 0; epoch < 6; epoch++) {
            /* the last epoch again, from its middle */
            int64_t first = epoch == 5 ? 3 * BATCH : 0;

            assert_int_equal(loader_begin_epoch(loader, epoch == 5 ? 4 : epoch, first, &error), 0);
            for (;;) {
                assert_int_equal(loader_next(loader, &batch, &error), 0);
                if (batch.count == 0)
                    break;
                memcpy(samples[t > 0][batch.position], batch.samples,
                       (size_t)batch.count * sizeof samples[0][0]);
                memcpy(targets[t > 0][batch.position], batch.targets,
                       (size_t)batch.count * sizeof targets[0][0]);
                loader_release(loader);
            }
        }
        assert_memory_equal(samples[0], samples[t > 0], sizeof samples[0]);
        assert_memory_equal(targets[0], targets[t > 0], sizeof targets[0]);
        destroy(loader, memory);
    }
    dataset_close(set);
}

static void test_unshuffled(void **state)
{
    struct dataset_view views[] = {split.validation, dataset_view_all(dataset)};

    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++)
        for (int v = 0; v < 2; v++) {
            struct loader_config config = {.view = views[v], .threads = thread_counts[t]};
            void *memory;
            struct loader *loader = create(&config, &memory);
            struct error error;

            for (uint32_t epoch = 0; epoch < 3; epoch++) {
                assert_int_equal(loader_begin_epoch(loader, epoch, 0, &error), 0);
                check_epoch(loader, &views[v], NULL, 0, 1);
            }
            destroy(loader, memory);
        }
}

static void test_batch_larger_than_view(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {
            .view = split.validation, .batch = 4096, .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct loader_batch batch;
        struct error error;

        assert_int_equal(loader_begin_epoch(loader, 0, 0, &error), 0);
        assert_int_equal(loader_next(loader, &batch, &error), 0);
        assert_int_equal(batch.count, split.validation.count);
        destroy(loader, memory); /* with a batch held */
    }
}

static void test_holding_too_many(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {.view = split.train, .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct loader_batch batch;
        struct error error = {0};

        assert_int_equal(loader_next(loader, &batch, &error), -EINVAL); /* no epoch has begun yet */
        assert_int_equal(loader_begin_epoch(loader, 0, 0, &error), 0);
        for (int i = 0; i < LOADER_HELD_MAX; i++)
            assert_int_equal(loader_next(loader, &batch, &error), 0);
        assert_int_equal(loader_next(loader, &batch, &error), -EBUSY);
        loader_release(loader);
        assert_int_equal(loader_next(loader, &batch, &error), 0);
        assert_int_equal(batch.position, LOADER_HELD_MAX * BATCH);
        destroy(loader, memory);
    }
}

/* An error while gathering reaches the caller in its place: batches before it arrive, and so do
 * those of the next epoch. */
static void test_fault(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        struct loader_config config = {.view = {.dataset = dataset, .first = 3, .count = ROWS},
                                       .threads = thread_counts[t]};
        void *memory;
        struct loader *loader = create(&config, &memory);
        struct loader_batch batch;
        struct error error = {0};

        for (uint32_t epoch = 0; epoch < 2; epoch++) {
            assert_int_equal(loader_begin_epoch(loader, epoch, 0, &error), 0);
            for (int i = 0; i < ROWS / BATCH; i++) {
                assert_int_equal(loader_next(loader, &batch, &error), 0);
                assert_int_equal(batch.count, BATCH);
                loader_release(loader);
            }
            for (int i = 0; i < 2; i++) {
                error.code = 0;
                assert_int_equal(loader_next(loader, &batch, &error), -ERANGE);
                assert_int_equal(error.code, -ERANGE);
                assert_non_null(strstr(error.text, "only 1003"));
            }
        }
        destroy(loader, memory);
    }
}

static void test_changed_file(void **state)
{
    static const uint8_t images[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 1};
    const char *path = data_file_write("images", images, sizeof images);
    struct dataset_config set_config = {.format = DATASET_IDX,
                                        .paths = &path,
                                        .path_count = 1,
                                        .labels_path =
                                            data_file_write("labels", labels, sizeof labels)};
    struct dataset *set = data_open(&set_config, NULL);
    struct loader_config config = {.view = dataset_view_all(set)};
    void *memory;
    struct loader *loader = create(&config, &memory);
    struct error error = {0};

    (void)state;
    assert_int_equal(loader_begin_epoch(loader, 0, 0, &error), 0);
    assert_int_equal(truncate(path, 13), 0);
    assert_int_equal(loader_begin_epoch(loader, 0, 0, &error), -ERROR_STALE_FILE);
    destroy(loader, memory);
    dataset_close(set);
}

static void test_refusals(void **state)
{
    static const struct loader_config configs[] = {
        {.batch = 0, .view.count = 1},
        {.batch = 1, .view.count = 0},
        {.batch = 1, .view.count = 1, .threads = -1},
        {.batch = 1, .view.count = 1, .threads = LOADER_THREADS_MAX + 1}};

    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        struct loader *loader;
        struct error error = {0};
        assert_int_equal(loader_create(&configs[i], NULL, &loader, &error), -EINVAL);
        assert_true(error.text[0] != '\0');
    }
    loader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_balanced_epochs),
        cmocka_unit_test(test_any_position),
        cmocka_unit_test(test_abandoned_epochs),
        cmocka_unit_test(test_augmented_threads_agree),
        cmocka_unit_test(test_the_last_batch_is_left_out),
        cmocka_unit_test(test_unshuffled),
        cmocka_unit_test(test_batch_larger_than_view),
        cmocka_unit_test(test_holding_too_many),
        cmocka_unit_test(test_fault),
        cmocka_unit_test(test_changed_file),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_rows, close_rows);
}
