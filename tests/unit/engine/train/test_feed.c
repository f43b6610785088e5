/* test_feed.c: with data in the device's memory, the batches are the loader's, bit for bit. A run
 * whose launches have several steps reports the same, and learns the same, as a run of single
 * steps. The device is a stand-in on the CPU (tests/support/data_backend.h). */
#include "engine/data/split.h"
#include "engine/graph/forward.h"
#include "engine/models/models.h"
#include "engine/train/device_data.h"
#include "engine/train/feed.h"
#include "engine/train/training.h"
#include "tests/support/data_backend.h"
#include "tests/support/data_files.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 203, HEIGHT = 6, WIDTH = 9, ELEMENTS = 3 * HEIGHT * WIDTH, CLASSES = 5, BATCH = 16 };

/* ---- sets ---- */

static struct dataset *open_images(void)
{
    static uint8_t file[20 + COUNT * ELEMENTS] = {0, 0, 8, 4, 0, 0,      0, COUNT, 0, 0,
                                                  0, 3, 0, 0, 0, HEIGHT, 0, 0,     0, WIDTH};
    static uint8_t labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    struct dataset_config config = {.format = DATASET_IDX, .path_count = 1};

    for (uint32_t i = 0; i < COUNT * ELEMENTS; i++)
        file[20 + i] = (uint8_t)(i * 2654435761u >> 24);
    for (int i = 0; i < COUNT; i++)
        labels[8 + i] = (uint8_t)(i % CLASSES);
    const char *path = data_file_write("images", file, sizeof file);
    config.paths = &path;
    config.labels_path = data_file_write("labels", labels, sizeof labels);
    return data_open(&config, NULL);
}

static struct dataset *open_cifar(void)
{
    static uint8_t file[20][3073];
    struct dataset_config config = {
        .format = DATASET_CIFAR, .path_count = 1, .cifar = {.label_bytes = 1}};

    for (int i = 0; i < 20; i++)
        for (int p = 0; p < 3073; p++)
            file[i][p] = (uint8_t)(p == 0 ? i % 10 : i * 31 + p * 7);
    const char *path = data_file_write("cifar.bin", file, sizeof file);
    config.paths = &path;
    return data_open(&config, NULL);
}

static struct dataset *open_rows(int count, enum dataset_target target)
{
    char *text = malloc((size_t)count * 64), *at = text;
    struct dataset_config config = {.format = DATASET_CSV, .path_count = 1, .target = target};

    for (int i = 0; i < count; i++)
        at += sprintf(at, "%f,%f,%f,%d\n", sin(i), cos(3 * i), 100 * sin(i * i), i % 7 % 3);
    const char *path = data_file_write_text("rows.csv", text);
    free(text);
    config.paths = &path;
    return data_open(&config, NULL);
}

static struct dataset *open_text(const char *text)
{
    const char *path = data_file_write_text("text.txt", text);
    struct dataset_config config = {
        .format = DATASET_TEXT, .paths = &path, .path_count = 1, .text = {.context = 5}};

    return data_open(&config, NULL);
}

/* Sequences of different lengths. */
static struct dataset *open_sequences(enum dataset_tokens tokens)
{
    struct dataset_config config = {.format = DATASET_CSV_SEQUENCES,
                                    .path_count = 1,
                                    .sequence = {.tokens = tokens, .kmer = 3, .kmer_stride = 1}};
    char text[4096], *at = text;

    for (int i = 0; i < 60; i++) {
        for (int k = 0; k < 3 + i * 7 % 20; k++)
            *at++ = "ACGTN"[(i * k + k * k + i) % 5];
        at += sprintf(at, ",%d\n", i % 3);
    }
    const char *path = data_file_write_text("sequences.csv", text);
    config.paths = &path;
    return data_open(&config, NULL);
}

/* ---- batches ---- */

static int build_linear(void *context, struct graph *graph, struct error *error)
{
    const struct feed_config *config = context;
    const struct dataset *dataset = config->loader.view.dataset;
    const struct augmentation *augmentation = config->loader.augmentation;
    bool symbols = dataset_format_has_symbols(dataset->format);
    int32_t x =
        graph_input(graph, symbols ? TENSOR_INT32 : TENSOR_FLOAT32, dataset->shape, dataset->rank);

    if (symbols)
        x = graph_embedding(graph, x, "e", dataset_vocabulary_size(&dataset->vocabulary), 3);
    x = graph_linear(graph, graph_flatten(graph, x, "f"), "0",
                     dataset->target == DATASET_TARGET_VALUE ? 1 : dataset->classes, true);
    if (dataset->target == DATASET_TARGET_VALUE)
        graph_mse(graph, x);
    else if (augmentation && augmentation_is_soft(augmentation))
        graph_soft_cross_entropy(graph, x);
    else
        graph_cross_entropy(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Compares one epoch of the loader and of the device, batch by batch. */
static void check_batches(const struct dataset_view *view,
                          const struct dataset_normalisation *normalisation,
                          const struct augmentation *augmentation, uint32_t epoch)
{
    struct feed_config config = {.loader = {.view = *view,
                                            .normalisation = normalisation,
                                            .augmentation = augmentation,
                                            .batch = BATCH,
                                            .shuffle = true,
                                            .seed = 7}};
    struct backend backend = data_backend(NULL);
    struct backend_device_config device_config = {.threads = 1};
    struct session_config session_config = {
        .backend = &backend,
        .build = build_linear,
        .build_context = &config,
        .evaluation_batches = {BATCH, view->count % BATCH},
        .data = {device_data_describe(view->dataset, normalisation, augmentation)},
        .data_count = 1};
    struct backend_step step = {.scalars = {.step = 1, .gradient_scale = 1},
                                .phases = PROGRAM_FORWARD};
    void *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(&config.loader));
    struct error error = {0};
    struct loader *loader;
    struct feed *feed = NULL;
    int64_t count, done = 0;

    session_config.data[0].orders = feed_orders(&config.loader);
    session_config.data[0].batch = BATCH;
    assert_int_equal(backend.device_open(&device_config, &session_config.device, &error), 0);
    if (session_prepare(&session_config, &config.session, &error) ||
        session_allocate(config.session, &error) ||
        device_data_write(&backend, session_data(config.session, 0), view->dataset, augmentation,
                          view, &error) ||
        feed_create(&config, &feed, &error) || feed_begin_epoch(feed, epoch, 0, &error) ||
        loader_create(&config.loader, memory, &loader, &error) ||
        loader_begin_epoch(loader, epoch, 0, &error))
        fail_msg("%s", error.text);
    while (feed_fetch(feed, &count, &error) == 0 && count > 0) {
        size_t targets =
            (size_t)count * (augmentation ? augmentation_target_bytes(augmentation, view->dataset)
                                          : dataset_target_bytes(view->dataset));
        struct loader_batch batch;

        assert_int_equal(loader_next(loader, &batch, &error), 0);
        assert_int_equal(feed_run(feed, false, &step, 1, &error), 0);
        assert_int_equal(batch.count, count);
        assert_memory_equal(data_backend_batch[0], batch.samples,
                            (size_t)count * dataset_sample_bytes(view->dataset));
        assert_memory_equal(data_backend_batch[1], batch.targets, targets);
        loader_release(loader);
        done += count;
    }
    assert_int_equal(done, view->count);
    loader_free(loader);
    feed_free(feed);
    session_free(config.session);
    backend.device_close(session_config.device);
    free(memory);
}

static void check_all(struct dataset *dataset, enum dataset_normalisation_kind kind,
                      const struct augmentation *augmentation)
{
    struct dataset_normalisation constants = {0};
    struct dataset_split split;
    struct error error = {0};
    bool symbols = dataset_format_has_symbols(dataset->format);

    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.2, .seed = 1},
                                   &split, &error),
                     0);
    if (!symbols)
        assert_int_equal(dataset_normalisation_measure(kind, &split.train, &constants, &error), 0);
    for (uint32_t epoch = 0; epoch < 2; epoch++)
        check_batches(&split.train, symbols ? NULL : &constants, augmentation, epoch);
    check_batches(&split.validation, symbols ? NULL : &constants, augmentation, 0);
    dataset_normalisation_release(&constants);
    dataset_split_release(&split);
    dataset_close(dataset);
}

static void test_plain(void **state)
{
    (void)state;
    check_all(open_images(), DATASET_NORMALISE_STANDARD, NULL);
    check_all(open_images(), DATASET_NORMALISE_NONE, NULL);
    check_all(open_cifar(), DATASET_NORMALISE_STANDARD, NULL);
    check_all(open_rows(COUNT, DATASET_TARGET_CLASS), DATASET_NORMALISE_STANDARD, NULL);
    check_all(open_rows(COUNT, DATASET_TARGET_VALUE), DATASET_NORMALISE_NONE, NULL);
    check_all(open_text("The quick brown fox jumps over the lazy dog, and back again it goes."),
              DATASET_NORMALISE_NONE, NULL);
    check_all(open_text("Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich, öfter."),
              DATASET_NORMALISE_NONE, NULL);
    for (enum dataset_tokens tokens = DATASET_TOKENS_CHARACTERS; tokens <= DATASET_TOKENS_KMERS;
         tokens++)
        check_all(open_sequences(tokens), DATASET_NORMALISE_NONE, NULL);
}

static void test_augmented(void **state)
{
    static const struct augmentation cases[] = {
        {.seed = 3, .crop_padding = 2},
        {.seed = 3, .horizontal_flip = true},
        {.seed = 3, .cutout_side = 4},
        {.seed = 4, .crop_padding = 5, .horizontal_flip = true, .cutout_side = 3},
        {.seed = 5, .label_noise = 0.3},
        {.seed = 6, .label_smoothing = 0.1},
        {.seed = 7, .mixup_alpha = 0.4},
        {.seed = 8,
         .label_noise = 0.1,
         .crop_padding = 1,
         .horizontal_flip = true,
         .cutout_side = 2,
         .mixup_alpha = 1,
         .label_smoothing = 0.2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_all(open_images(), DATASET_NORMALISE_STANDARD, &cases[i]);
        check_all(open_images(), DATASET_NORMALISE_NONE, &cases[i]);
    }
    check_all(open_rows(COUNT, DATASET_TARGET_CLASS), DATASET_NORMALISE_STANDARD, &cases[6]);
    check_all(open_sequences(DATASET_TOKENS_KMERS), DATASET_NORMALISE_NONE, &cases[4]);
    check_all(open_sequences(DATASET_TOKENS_KMERS), DATASET_NORMALISE_NONE, &cases[5]);
}

/* ---- runs ---- */

enum { ROWS = 2000, TOLD_MAX = 4096 };

/* The reports of a run that do not depend on the clock. */
struct told {
    struct dataset_split split;
    struct dataset_normalisation constants;
    int count;
    struct {
        int64_t step;
        const char *name;
        double value;
    } values[TOLD_MAX];
};

static int build_perceptron(void *context, struct graph *graph, struct error *error)
{
    static const struct model_data data = {
        .type = TENSOR_FLOAT32, .sample_shape = {3}, .rank = 1, .outputs = 3};
    static const int64_t hidden[] = {8};
    static const struct model_config model = {.kind = MODEL_MLP,
                                              .hidden = hidden,
                                              .hidden_count = 1,
                                              .activation = ACTIVATION_TANH,
                                              .dropout = 0.1f};

    (void)context;
    return model_build(&model, &data, graph, error);
}

static int on_metrics(void *context, int64_t step, double epoch,
                      const struct training_values *values, struct error *error)
{
    struct told *told = context;

    (void)epoch;
    (void)error;
    for (int i = 0; i < values->count; i++) {
        const char *name = values->values[i].name;

        /* after the first rows, the clock decides when rows are reported */
        if (strstr(name, "second") || (strstr(name, "step_loss") && step > 5) ||
            (strstr(name, "learning_rate") && strstr(values->values[0].name, "step_loss")))
            continue;
        assert_true(told->count < TOLD_MAX);
        told->values[told->count].step = step;
        told->values[told->count].name = name;
        told->values[told->count++].value = values->values[i].value;
    }
    return 0;
}

static struct training *train(const struct training_config *config, const struct backend *backend,
                              struct backend_device *device, struct told *told)
{
    struct training_data data = {.train = told->split.train,
                                 .validation = told->split.validation,
                                 .test = told->split.validation,
                                 .normalisation = &told->constants};
    struct training_events events = {.context = told, .metrics = on_metrics};
    struct training_requests requests = {0};
    struct training_result result;
    struct checkpoint_texts texts = {0};
    struct training *training = NULL;
    struct error error = {0};

    told->count = 0;
    if (training_prepare(config, &data, backend, device, build_perceptron, NULL, &training,
                         &error) ||
        training_allocate(training, &error) ||
        training_run(training, &texts, &events, &requests, &result, &error))
        fail_msg("%s", error.text);
    return training;
}

static void compare_runs(struct training *a, struct training *b, const struct told *left,
                         const struct told *right)
{
    struct session *sessions[] = {training_session(a), training_session(b)};
    struct session_tensor tensor;
    struct error error;

    assert_int_equal(left->count, right->count);
    for (int i = 0; i < left->count; i++) {
        assert_int_equal(left->values[i].step, right->values[i].step);
        assert_string_equal(left->values[i].name, right->values[i].name);
        assert_memory_equal(&left->values[i].value, &right->values[i].value, sizeof(double));
    }
    for (int i = 0; session_tensor(sessions[0], i, &tensor) == 0; i++) {
        void *values = malloc(tensor.bytes);

        assert_int_equal(session_read(sessions[0], i, values, &error), 0);
        assert_int_equal(session_read(sessions[1], i, session_scratch(sessions[1]), &error), 0);
        assert_memory_equal(values, session_scratch(sessions[1]), tensor.bytes);
        free(values);
    }
}

static struct told single_steps, launches;
static int64_t left_out; /* how many updates of the latest run were left out */

/* Rows, split and measured for `launches`, on a device that keeps them. */
static struct dataset *open_launches(const struct backend *backend, struct backend_device **device)
{
    struct backend_device_config config = {.threads = 1, .emulate_precision = true};
    struct dataset *dataset = open_rows(ROWS, DATASET_TARGET_CLASS);
    struct error error = {0};

    assert_int_equal(backend->device_open(&config, device, &error), 0);
    assert_int_equal(dataset_split(dataset,
                                   &(struct dataset_split_config){.fraction = 0.3, .seed = 1},
                                   &launches.split, &error),
                     0);
    assert_int_equal(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD,
                                                   &launches.split.train, &launches.constants,
                                                   &error),
                     0);
    return dataset;
}

static void close_launches(const struct backend *backend, struct backend_device *device,
                           struct dataset *dataset)
{
    backend->device_close(device);
    dataset_normalisation_release(&launches.constants);
    dataset_split_release(&launches.split);
    dataset_close(dataset);
}

static void check_run(const struct training_config *config)
{
    struct backend backend = data_backend(NULL);
    struct backend_device *device;
    struct dataset *dataset = open_launches(&backend, &device);
    struct training *loaded, *launched;
    const struct memory_plan *plan;
    size_t sum = 0;

    single_steps = launches;
    loaded = train(config, backend_cpu(), device, &single_steps);
    launched = train(config, &backend, device, &launches);
    compare_runs(loaded, launched, &single_steps, &launches);
    assert_memory_equal(&training_state(loaded)->loss_scale, &training_state(launched)->loss_scale,
                        sizeof(struct loss_scale));
    left_out = training_state(launched)->loss_scale.skipped;
    plan = session_memory(training_session(launched));
    assert_true(plan->class_bytes[MEMORY_DATA] >= ROWS * 3 * sizeof(float));
    for (int i = 0; i < MEMORY_CLASS_COUNT; i++)
        sum += plan->class_bytes[i];
    assert_int_equal(sum, plan->arena_bytes);
    training_free(loaded);
    training_free(launched);
    close_launches(&backend, device, dataset);
}

static const struct training_config plain = {
    .epochs = 3,
    .batch = 4,
    .accumulate = 1,
    .evaluation_batch = 4,
    .shuffle = true,
    .seed = 7,
    .clip_norm = 1,
    .optimizer = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8},
    .schedule = {.kind = SCHEDULE_COSINE, .learning_rate = 0.01, .warmup_steps = 30}};

/* 350 batches in an epoch: five launches of one batch, and the others as long as possible. */
static void test_launches_are_long(void **state)
{
    (void)state;
    data_backend_calls = (struct data_backend_calls){0};
    check_run(&plain);
    assert_int_equal(data_backend_calls.steps, 3 * 350);
    assert_true(data_backend_calls.longest > 1);
    assert_true(data_backend_calls.launches < data_backend_calls.steps);
    assert_true(data_backend_calls.longest_evaluation > 1);
    /* of the epochs, and of the other sets */
    assert_int_equal(data_backend_calls.orders, 3 + 1 + 1);
}

static void test_nothing_falls_within_a_launch(void **state)
{
    struct training_config config = plain;

    (void)state;
    config.evaluate_every_steps = 37;
    config.average_decay = 0.9;
    check_run(&config);
    config.accumulate = 3;
    config.batch = 9; /* the last batch of an epoch has 5 */
    check_run(&config);
    config.steps = 100;
    config.shuffle = false;
    check_run(&config);
}

/* A quarter of the limit is less than the data takes, so loaders bring the batches. */
static void test_data_beyond_the_limit(void **state)
{
    struct training_config config = plain;
    struct backend backend = data_backend(NULL);
    struct backend_device *device;
    struct dataset *dataset = open_launches(&backend, &device);

    (void)state;
    for (int fits = 0; fits < 2; fits++) {
        size_t bytes = ROWS * 3 * sizeof(float); /* the validation part belongs to the same set */
        struct training *training;

        config.memory_limit = (fits ? 4 : 3) * bytes;
        data_backend_calls = (struct data_backend_calls){0};
        training = train(&config, &backend, device, &launches);
        assert_int_equal(data_backend_calls.steps, fits ? 3 * 350 : 0);
        training_free(training);
    }
    close_launches(&backend, device, dataset);
}

/* With batches of one sample, gradients overflow whenever the scale has grown after 2000 updates.
 * The next update is then left out, within a launch. */
static void test_the_device_scales_the_loss(void **state)
{
    struct training_config config = plain;

    (void)state;
    config.compute_type = TENSOR_FLOAT16;
    config.batch = config.evaluation_batch = 1; /* 4200 updates */
    data_backend_scales = true;
    data_backend_calls = (struct data_backend_calls){0};
    check_run(&config);
    assert_true(data_backend_calls.longest > 1);
    assert_true(left_out > 0);
    data_backend_scales = false;
    data_backend_calls = (struct data_backend_calls){0};
    check_run(&config);
    assert_int_equal(data_backend_calls.longest, 1);
}

/* A clock that advances when the device's sums are read and when the meter is, by so many seconds,
 * and a meter that counts 1 W by it. */
static struct {
    double seconds, step, reading;
    int readings;
    void (*read_metrics)(struct backend_program *program, struct step_metrics *metrics);
} meter;

static double metered_seconds(struct backend_device *device)
{
    (void)device;
    return meter.seconds += 1e-9;
}

static void metered_metrics(struct backend_program *program, struct step_metrics *metrics)
{
    meter.seconds += meter.step;
    meter.read_metrics(program, metrics);
}

static double metered_energy(struct backend_device *device)
{
    (void)device;
    meter.readings++;
    return meter.seconds += meter.reading;
}

static int count_values(const struct told *told, const char *name)
{
    int count = 0;

    for (int i = 0; i < told->count; i++)
        count += strcmp(told->values[i].name, name) == 0;
    return count;
}

/* A reading blocks all processes of the device, so short epochs have none, nor have epochs of which
 * a reading would take more than a hundredth. */
static void test_the_meter_is_read_now_and_then(void **state)
{
    static const struct {
        double step, reading;
        int readings, epochs;
    } cases[] = {{1e-6, 0, 1, 0}, {0.1, 0, 4, 3}, {0.1, 0.001, 4, 3}, {0.02, 0.0099, 1, 0}};
    struct training_config config = plain;
    struct backend backend = *backend_cpu();
    struct backend_device *device;
    struct dataset *dataset = open_launches(&backend, &device);

    (void)state;
    meter.read_metrics = backend.program_read_metrics;
    backend.program_read_metrics = metered_metrics;
    backend.device_seconds = metered_seconds;
    backend.device_energy = metered_energy;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        meter.seconds = 0;
        meter.readings = 0;
        meter.step = cases[i].step;
        meter.reading = cases[i].reading;
        training_free(train(&config, &backend, device, &launches));
        assert_int_equal(count_values(&launches, "train_loss"), 3);
        assert_int_equal(count_values(&launches, "epoch_joules"), cases[i].epochs);
        assert_int_equal(meter.readings, cases[i].readings);
    }
    close_launches(&backend, device, dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_augmented),
        cmocka_unit_test(test_launches_are_long),
        cmocka_unit_test(test_nothing_falls_within_a_launch),
        cmocka_unit_test(test_data_beyond_the_limit),
        cmocka_unit_test(test_the_device_scales_the_loss),
        cmocka_unit_test(test_the_meter_is_read_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
