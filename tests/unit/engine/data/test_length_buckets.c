/* test_length_buckets.c: lengths chosen for the batches of sequences, and the batches that a loader
 * makes with them. */
#include "engine/data/loader.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SAMPLES = 203, BATCH = 8, LONGEST = 90, THREAD_COUNTS = 3 };
static const int thread_counts[THREAD_COUNTS] = {0, 1, 3};

static struct dataset *dataset;
static struct dataset_view view;

/* Most are short. Sample i begins with i in base 4, so that samples are told apart. */
static int open_sequences(void **state)
{
    char *text = malloc((SAMPLES + 1) * (LONGEST + 8)), *at = text;
    const char *path;
    struct dataset_config config = {.format = DATASET_CSV_SEQUENCES,
                                    .path_count = 1,
                                    .sequence.tokens = DATASET_TOKENS_NUCLEOTIDES};

    (void)state;
    at += sprintf(at, "sequence,label\n");
    for (int i = 0; i < SAMPLES; i++) {
        int length = i % 4 < 2 ? 5 + i % 3 : i % 4 == 2 ? 20 + i % 7 : 5 + i * i % (LONGEST - 4);

        length = i == 17 ? LONGEST : length;
        for (int k = 0; k < length; k++)
            *at++ = "ACGT"[k < 4 ? i >> 2 * k & 3 : (i + k * k) % 4];
        at += sprintf(at, ",%d\n", i % 2);
    }
    path = data_file_write_text("lengths.csv", text);
    config.paths = &path;
    dataset = data_open(&config, NULL);
    view = dataset_view_all(dataset);
    free(text);
    return dataset->shape[0] == LONGEST ? 0 : -1;
}

static int close_sequences(void **state)
{
    (void)state;
    dataset_close(dataset);
    return 0;
}

static struct length_buckets choose(int wanted, int64_t least)
{
    struct length_buckets buckets;
    struct error error = {0};

    if (length_buckets_choose(&view, wanted, least, &buckets, &error) < 0)
        fail_msg("%s", error.text);
    return buckets;
}

/* ---- choosing ---- */

static int64_t steps_in_all(const int64_t *steps, int count)
{
    int64_t sum = 0;

    for (int64_t i = 0; i < view.count; i++) {
        int k = 0;

        while (k < count - 1 && steps[k] < dataset_sample_length(dataset, i))
            k++;
        sum += steps[k];
    }
    return sum;
}

/* The best three lengths, found by trying all. */
static void test_fewest_steps(void **state)
{
    struct length_buckets buckets = choose(3, 1);
    int64_t fewest = INT64_MAX;

    (void)state;
    for (int64_t a = 1; a < LONGEST; a++)
        for (int64_t b = a + 1; b < LONGEST; b++) {
            int64_t steps = steps_in_all((int64_t[]){a, b, LONGEST}, 3);

            fewest = steps < fewest ? steps : fewest;
        }
    assert_int_equal(buckets.count, 3);
    assert_int_equal(buckets.steps[2], LONGEST);
    assert_int_equal(steps_in_all(buckets.steps, 3), fewest);
}

static void test_limits(void **state)
{
    struct length_buckets buckets = choose(LENGTH_BUCKETS_MAX, 30);
    double shares[LENGTH_BUCKETS_MAX], sum = 0;

    (void)state;
    assert_int_equal(choose(1, 1).count, 0);
    assert_int_equal(choose(LENGTH_BUCKETS_MAX, SAMPLES + 1).count, 0);
    assert_true(buckets.count >= 3 && buckets.count <= SAMPLES / 30 + 1);
    length_buckets_shares(&buckets, &view, shares);
    for (int i = 0; i < buckets.count; i++) {
        assert_true(i == buckets.count - 1 || shares[i] >= 30.0 / SAMPLES - 1e-9);
        assert_true(i == 0 || buckets.steps[i] > buckets.steps[i - 1]);
        sum += shares[i];
    }
    assert_true(sum > 1 - 1e-9 && sum < 1 + 1e-9);
}

/* ---- batches ---- */

/* What the batches of an epoch have: the samples in order, and the steps of each batch. */
struct epoch {
    uint32_t indices[SAMPLES];
    int64_t steps[SAMPLES / BATCH + 1];
    int64_t count, batches;
};

static void check_batch(const struct loader_config *config, const struct loader_batch *batch)
{
    int64_t steps = batch->steps ? batch->steps : LONGEST, longest = 0;
    int32_t row[LONGEST], label;
    struct error error;

    for (int64_t i = 0; i < batch->count; i++) {
        const int32_t *found = (const int32_t *)batch->samples + i * steps;
        int64_t length = dataset_sample_length(dataset, batch->indices[i]);

        assert_int_equal(dataset_gather(dataset, NULL, &batch->indices[i], 1, row, &label, &error),
                         0);
        assert_memory_equal(found, row, (size_t)steps * sizeof *row);
        assert_int_equal(((const int32_t *)batch->targets)[i], label);
        longest = length > longest ? length : longest;
    }
    if (batch->count < config->batch)
        assert_int_equal(batch->steps, 0);
    else
        assert_int_equal(steps,
                         config->buckets.steps[length_buckets_find(&config->buckets, longest)]);
}

/* Reads from sample `position` to the end of the epoch. */
static struct epoch read_epoch(const struct loader_config *config, uint32_t epoch, int64_t position)
{
    void *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(config));
    struct epoch read = {0};
    struct loader *loader;
    struct error error = {0};

    if (loader_create(config, memory, &loader, &error) < 0 ||
        loader_begin_epoch(loader, epoch, position, &error) < 0)
        fail_msg("%s", error.text);
    for (;;) {
        struct loader_batch batch;

        if (loader_next(loader, &batch, &error) < 0)
            fail_msg("%s", error.text);
        if (!batch.count)
            break;
        check_batch(config, &batch);
        memcpy(read.indices + read.count, batch.indices,
               (size_t)batch.count * sizeof *batch.indices);
        read.count += batch.count;
        read.steps[read.batches++] = batch.steps;
        loader_release(loader);
    }
    loader_free(loader);
    free(memory);
    return read;
}

static void check_once(const struct epoch *epoch)
{
    uint8_t seen[SAMPLES] = {0};

    assert_int_equal(epoch->count, SAMPLES);
    for (int64_t i = 0; i < SAMPLES; i++)
        assert_int_equal(seen[epoch->indices[i]]++, 0);
}

/* How many batches of an epoch are as long as the set's samples. */
static int whole_batches(const struct epoch *epoch)
{
    int count = 0;

    for (int64_t i = 0; i < epoch->batches; i++)
        count += epoch->steps[i] == 0;
    return count;
}

static void test_epochs(void **state)
{
    struct loader_config config = {
        .view = view, .batch = BATCH, .shuffle = true, .seed = 4, .buckets = choose(4, BATCH)};
    struct epoch first = read_epoch(&config, 0, 0), second = read_epoch(&config, 1, 0), again;
    double shares[LENGTH_BUCKETS_MAX];

    (void)state;
    length_buckets_shares(&config.buckets, &view, shares);
    check_once(&first);
    check_once(&second);
    assert_memory_not_equal(first.indices, second.indices, sizeof first.indices);
    /* neither the samples nor the lengths of the batches are sorted */
    assert_memory_not_equal(first.steps, second.steps, sizeof first.steps);
    /* those of the longest bucket, one that two buckets share, and the last */
    assert_true(whole_batches(&first) <= (int)(shares[3] * SAMPLES / BATCH) + 3);
    for (int t = 0; t < THREAD_COUNTS; t++) {
        config.threads = thread_counts[t];
        again = read_epoch(&config, 1, 0);
        assert_memory_equal(&again, &second, sizeof again);
    }
    /* from the middle of the epoch */
    again = read_epoch(&config, 1, 9 * BATCH);
    assert_int_equal(again.count, SAMPLES - 9 * BATCH);
    assert_memory_equal(again.indices, second.indices + 9 * BATCH,
                        (size_t)again.count * sizeof *again.indices);
}

/* Without shuffling the samples come in the order of their buckets. */
static void test_evaluation(void **state)
{
    struct loader_config config = {.view = view, .batch = BATCH, .buckets = choose(4, BATCH)};
    struct epoch epoch = read_epoch(&config, 0, 0);
    int before = 0;

    (void)state;
    check_once(&epoch);
    for (int64_t i = 0; i < SAMPLES; i++) {
        int bucket =
            length_buckets_find(&config.buckets, dataset_sample_length(dataset, epoch.indices[i]));

        assert_true(bucket >= before);
        before = bucket;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fewest_steps),
                                       cmocka_unit_test(test_limits), cmocka_unit_test(test_epochs),
                                       cmocka_unit_test(test_evaluation)};

    return cmocka_run_group_tests(tests, open_sequences, close_sequences);
}
