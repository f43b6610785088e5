/* test_loss_weights.c: what classes and samples count: the targets of batches, and the loss that
 * follows from them, against the definition of PyTorch's CrossEntropyLoss(weight=,
 * label_smoothing=). */
#include "engine/data/loader.h"
#include "engine/data/loss_weights.h"
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

enum { ROWS = 53, CLASSES = 3, BATCH = 8 };

static const char *path;
static struct dataset_config config;
static struct error error;

static int32_t class_of(int64_t row)
{
    return (int32_t)(row % 7 % 4 % CLASSES);
}

static double weight_of(int64_t row)
{
    return (double)(row % 5) / 4;
}

static struct dataset *rows_open(bool weighted)
{
    char text[64 * ROWS], *end = text + sprintf(text, "label;x;w\n");

    for (int64_t i = 0; i < ROWS; i++)
        end += sprintf(end, "%d;%d;%g\n", class_of(i), (int)(i * 7 % 11), weight_of(i));
    path = data_file_write_text("rows.csv", text);
    config = (struct dataset_config){.format = DATASET_TABLE, .paths = &path, .path_count = 1};
    config.csv.label_column = "label";
    config.table.weight_column = weighted ? "w" : NULL;
    return data_open(&config, NULL);
}

/* log p(class) of a made-up model. */
static double log_probability(int64_t row, int32_t class)
{
    double sum = 0;

    for (int32_t c = 0; c < CLASSES; c++)
        sum += exp(sin((double)(row * CLASSES + c)));
    return sin((double)(row * CLASSES + class)) - log(sum);
}

/* PyTorch's loss of samples: its definition for weights and smoothing, times those of samples. */
static double torch_loss(const struct loss_weights *weights, double smoothing,
                         const uint32_t *indices, int64_t count)
{
    double own = 0, all = 0, divisor = 0;

    for (int64_t i = 0; i < count; i++) {
        int64_t row = indices[i];
        double sample = weights->samples ? weight_of(row) : 1;
        double weight = (double)weights->classes[class_of(row)] * sample;

        own -= weight * log_probability(row, class_of(row));
        for (int32_t c = 0; c < CLASSES; c++)
            all -= (double)weights->classes[c] * sample * log_probability(row, c);
        divisor += weight;
    }
    return ((1 - smoothing) * own + smoothing / CLASSES * all) / divisor;
}

/* The sum of -target log p. */
static double soft_loss(const struct loader_batch *batch)
{
    const float *targets = batch->targets;
    double sum = 0;

    for (int64_t i = 0; i < batch->count; i++)
        for (int32_t c = 0; c < CLASSES; c++)
            sum -= (double)targets[i * CLASSES + c] * log_probability(batch->indices[i], c);
    return sum;
}

/* Each update of an epoch has PyTorch's loss of all its samples together. */
static void check_epoch(const struct dataset *dataset, const struct loss_weights *weights,
                        double smoothing, int64_t accumulate, int threads)
{
    const struct augmentation augmentation = {.weights = weights, .label_smoothing = smoothing};
    struct dataset_normalisation constants = {0};
    struct loader_config how = {.view = dataset_view_all(dataset),
                                .normalisation = &constants,
                                .batch = BATCH,
                                .accumulate = accumulate,
                                .shuffle = true,
                                .seed = 5,
                                .threads = threads,
                                .augmentation = &augmentation};
    uint32_t indices[ROWS];
    int64_t count = 0, updates = 0;
    struct loader_batch batch;
    struct loader *loader;
    double loss = 0;
    void *memory;

    assert_int_equal(
        dataset_normalisation_measure(DATASET_NORMALISE_NONE, &how.view, &constants, &error), 0);
    memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(&how));
    assert_int_equal(loader_create(&how, memory, &loader, &error), 0);
    assert_int_equal(loader_begin_epoch(loader, 3, 0, &error), 0);
    do {
        assert_int_equal(loader_next(loader, &batch, &error), 0);
        if (count && (count == BATCH * accumulate || !batch.count)) {
            assert_float_equal(loss / (double)count, torch_loss(weights, smoothing, indices, count),
                               1e-6);
            loss = 0;
            count = 0;
            updates++;
        }
        if (batch.count) { /* else the epoch has ended, and there are no indices */
            memcpy(indices + count, batch.indices, (size_t)batch.count * sizeof *indices);
            count += batch.count;
            loss += soft_loss(&batch);
            loader_release(loader);
        }
    } while (batch.count);
    assert_int_equal(updates, (ROWS + BATCH * accumulate - 1) / (BATCH * accumulate));
    loader_free(loader);
    free(memory);
    dataset_normalisation_release(&constants);
}

static void test_targets(void **state)
{
    static const float given[] = {0.5f, 3, 1.25f};

    (void)state;
    for (int weighted = 0; weighted < 2; weighted++) {
        struct dataset *dataset = rows_open(weighted);
        struct loss_weights weights;

        assert_int_equal(dataset->sample_elements, 2 - weighted); /* the weight is no feature */
        assert_int_equal(loss_weights_create(CLASSES, &weights, &error), 0);
        memcpy(weights.classes, given, sizeof given);
        weights.samples = weighted;
        for (int64_t accumulate = 1; accumulate <= 3; accumulate++)
            for (int smooths = 0; smooths < 2; smooths++)
                check_epoch(dataset, &weights, smooths * 0.1, accumulate, (int)accumulate - 1);
        loss_weights_release(&weights);
        dataset_close(dataset);
    }
}

static void test_balanced(void **state)
{
    struct dataset *dataset = rows_open(false);
    struct dataset_view view = dataset_view_all(dataset);
    struct loss_weights weights;
    int counts[CLASSES] = {0};

    (void)state;
    for (int64_t i = 0; i < ROWS; i++)
        counts[class_of(i)]++;
    assert_int_equal(loss_weights_create(CLASSES, &weights, &error), 0);
    assert_int_equal(loss_weights_balance(&weights, &view, &error), 0);
    for (int c = 0; c < CLASSES; c++)
        assert_float_equal(weights.classes[c], (double)ROWS / (CLASSES * counts[c]), 1e-6);
    loss_weights_release(&weights);
    dataset_close(dataset);
}

static void test_weights_of_0(void **state)
{
    struct dataset *dataset = rows_open(false);
    struct dataset_view view = dataset_view_all(dataset);
    struct loss_weights weights;
    const struct augmentation augmentation = {.weights = &weights};

    (void)state;
    assert_int_equal(loss_weights_create(CLASSES, &weights, &error), 0);
    assert_int_equal(loss_weights_check(&augmentation, &view, &error), 0);
    for (int c = 0; c < CLASSES; c++)
        weights.classes[c] = c ? 0 : 1e-35f;
    assert_int_equal(loss_weights_check(&augmentation, &view, &error), -EINVAL);
    assert_non_null(strstr(error.text, "nothing to learn"));
    loss_weights_release(&weights);
    dataset_close(dataset);
}

static void test_refusal(void **state)
{
    (void)state;
    path = data_file_write_text("rows.csv", "label;x;w\n0;1;2\n1;2;heavy\n");
    config = (struct dataset_config){.format = DATASET_TABLE, .paths = &path, .path_count = 1};
    config.csv.label_column = "label";
    config.table.weight_column = "w";
    data_expect_refusal(&config, NULL, -EINVAL,
                        "rows.csv:3: \"heavy\" in the column w is no weight of its sample",
                        (const char *)NULL);
}

static void smoothing_may_outweigh_a_label(void **state)
{
    float classes[CLASSES] = {1, 0.5f, 20};
    const struct loss_weights weights = {.classes = classes};
    struct augmentation augmentation = {.weights = &weights, .label_smoothing = 0.1};
    int32_t label, other;

    (void)state;
    assert_true(loss_weights_outweigh(&augmentation, CLASSES, &label, &other));
    assert_true(label == 1 && other == 2);
    classes[2] = 10; /* 0.5 * 0.933 is more than 10 * 0.033 */
    assert_false(loss_weights_outweigh(&augmentation, CLASSES, &label, &other));
    augmentation.label_smoothing = 0;
    classes[1] = 0;
    assert_false(loss_weights_outweigh(&augmentation, CLASSES, &label, &other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smoothing_may_outweigh_a_label),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_balanced),
        cmocka_unit_test(test_weights_of_0),
        cmocka_unit_test(test_refusal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
