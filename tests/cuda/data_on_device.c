/* data_on_device: checks that batches which the GPU makes of raw samples in its memory are the
 * loader's, bit for bit. After an epoch, the weights are the same, too, for any number of steps in
 * a launch. `data_on_device [PLUGIN [BACKEND]]` exits with 0: all agree; 1: not; 77: there is no
 * GPU. BACKEND is cuda unless it is given. */
#include "engine/data/augmentation.h"
#include "engine/data/split.h"
#include "engine/graph/forward.h"
#include "engine/train/device_data.h"
#include "engine/train/feed.h"
#include "worker/trainee/worker_plugin.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COUNT = 1000,
    CHANNELS = 3,
    HEIGHT = 12,
    WIDTH = 10,
    ELEMENTS = CHANNELS * HEIGHT * WIDTH,
    LABELS = 10,
    BATCH = 32,
    EPOCH = 3
};

static void expect(int result, const struct error *error)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

/* ---- the sets ---- */

static const char *file_path(const char *name)
{
    static char paths[4][256];
    static int next;
    const char *folder = getenv("TMPDIR");
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s.%d", folder ? folder : "/tmp", name, (int)getpid());
    return path;
}

static FILE *create(const char *path)
{
    FILE *file = fopen(path, "wb");

    if (!file) {
        perror(path);
        exit(1);
    }
    return file;
}

static struct dataset *open_set(const struct dataset_config *config)
{
    struct dataset *dataset = NULL;
    struct error error = {0};

    expect(dataset_open(config, NULL, &dataset, &error), &error);
    return dataset;
}

/* As many classes as a sample has elements, because the samples are the logits. */
static struct dataset *open_images(void)
{
    const char *images = file_path("images"), *labels = file_path("labels");
    struct dataset_config config = {.format = DATASET_IDX,
                                    .paths = &images,
                                    .path_count = 1,
                                    .labels_path = labels,
                                    .classes = ELEMENTS};
    const uint8_t head[] = {0, 0,        8, 4, 0, 0,      COUNT >> 8, COUNT & 255, 0, 0,
                            0, CHANNELS, 0, 0, 0, HEIGHT, 0,          0,           0, WIDTH};
    const uint8_t label_head[] = {0, 0, 8, 1, 0, 0, COUNT >> 8, COUNT & 255};
    FILE *file = create(images);
    struct dataset *dataset;

    fwrite(head, 1, sizeof head, file);
    for (uint32_t i = 0; i < COUNT * ELEMENTS; i++)
        fputc((int)(i * 2654435761u >> 24), file);
    fclose(file);
    file = create(labels);
    fwrite(label_head, 1, sizeof label_head, file);
    for (int i = 0; i < COUNT; i++)
        fputc(i * 7 % LABELS, file);
    fclose(file);
    dataset = open_set(&config);
    remove(images);
    remove(labels);
    return dataset;
}

static struct dataset *open_rows(void)
{
    const char *path = file_path("rows");
    struct dataset_config config = {
        .format = DATASET_CSV, .paths = &path, .path_count = 1, .classes = LABELS};
    FILE *file = create(path);
    struct dataset *dataset;

    for (int i = 0; i < COUNT; i++) {
        for (int c = 0; c < LABELS; c++)
            fprintf(file, "%.9g,", sin(i * 3.0 + c) * (c + 1));
        fprintf(file, "%d\n", i % LABELS);
    }
    fclose(file);
    dataset = open_set(&config);
    remove(path);
    return dataset;
}

/* Samples that overlap, of symbols. */
static struct dataset *open_text(void)
{
    const char *path = file_path("text");
    struct dataset_config config = {
        .format = DATASET_TEXT, .paths = &path, .path_count = 1, .text.context = 7};
    FILE *file = create(path);
    struct dataset *dataset;

    for (uint32_t i = 0; i < COUNT; i++)
        fputc('a' + (int)((i * i * 2654435761u >> 24) % 13), file);
    fclose(file);
    dataset = open_set(&config);
    remove(path);
    return dataset;
}

/* ---- one way for batches to come ---- */

struct model {
    const struct dataset *dataset;
    bool soft, learns;
};

/* The logits are twice the samples, or a multilayer perceptron's. */
static int build(void *context, struct graph *graph, struct error *error)
{
    const struct model *model = context;
    const bool text = model->dataset->format == DATASET_TEXT;
    int32_t x = graph_input(graph, text ? TENSOR_INT32 : TENSOR_FLOAT32, model->dataset->shape,
                            model->dataset->rank);
    int32_t y;

    if (text)
        x = graph_embedding(graph, x, "embedding", model->dataset->vocabulary.count, 4);

    if (model->learns) {
        y = graph_activation(graph,
                             graph_linear(graph, graph_flatten(graph, x, "f"), "0", 64, true), "1",
                             ACTIVATION_RELU);
        y = graph_linear(graph, graph_dropout(graph, y, "2", 0.25f), "3", model->dataset->classes,
                         true);
    } else {
        y = graph_flatten(graph, graph_add(graph, x, x, "double"), "flat");
    }
    if (model->soft)
        graph_soft_cross_entropy(graph, y);
    else
        graph_cross_entropy(graph, y);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

struct way {
    struct model model;
    struct session *session;
    struct feed *feed;
    struct feed_config feed_config;
};

struct source {
    const struct dataset_view *view;
    const struct dataset_normalisation *normalisation;
    const struct augmentation *augmentation;
    enum tensor_type type;
    bool learns;
    int accumulate;
};

static void way_open(struct way *way, const struct source *source, const struct backend *backend,
                     struct backend_device *device, bool on_device)
{
    int64_t tail = source->view->count % BATCH;
    struct session_config config = {
        .backend = backend,
        .device = device,
        .build = build,
        .build_context = &way->model,
        .optimizer = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .accumulate = source->accumulate > 1,
        .compute_type = source->type,
        .seed = 5};
    struct error error = {0};

    *way =
        (struct way){.model = {source->view->dataset,
                               source->augmentation && augmentation_is_soft(source->augmentation),
                               source->learns},
                     .feed_config = {.loader = {.view = *source->view,
                                                .normalisation = source->normalisation,
                                                .augmentation = source->augmentation,
                                                .batch = BATCH,
                                                .shuffle = true,
                                                .seed = 7},
                                     .data = on_device ? 0 : -1}};
    memcpy(source->learns ? config.training_batches : config.evaluation_batches,
           (int64_t[]){BATCH, tail}, 2 * sizeof tail);
    if (on_device) {
        config.data[0] = device_data_describe(source->view->dataset, source->normalisation,
                                              source->augmentation);
        config.data[0].orders = feed_orders(&way->feed_config.loader);
        config.data[0].batch = BATCH;
        config.data_count = 1;
    } else {
        config.staging_bytes = loader_memory_bytes(&way->feed_config.loader);
    }
    expect(session_prepare(&config, &way->session, &error), &error);
    expect(session_allocate(way->session, &error), &error);
    if (on_device)
        expect(device_data_write(backend, session_data(way->session, 0), source->view->dataset,
                                 source->augmentation, source->view, &error),
               &error);
    way->feed_config.session = way->session;
    way->feed_config.memory = session_staging(way->session);
    expect(feed_create(&way->feed_config, &way->feed, &error), &error);
    expect(feed_begin_epoch(way->feed, EPOCH, 0, &error), &error);
}

static void way_close(struct way *way)
{
    feed_end_epoch(way->feed);
    feed_free(way->feed);
    session_free(way->session);
}

static bool metrics_agree(const struct way *a, const struct way *b, bool training)
{
    struct step_metrics left, right;

    session_read_metrics(a->session, training, &left);
    session_read_metrics(b->session, training, &right);
    return memcmp(&left, &right, sizeof left) == 0 && isfinite(left.loss_sum);
}

/* ---- batches ---- */

/* Compares all batches of an epoch: those that the GPU makes in either way, and the loader's. */
static bool batches_agree(const struct source *source, const struct backend *backend,
                          struct backend_device *device)
{
    size_t width = (size_t)source->view->dataset->sample_elements;
    float *host_rows = malloc(BATCH * width * 4), *device_rows = malloc(BATCH * width * 4);
    struct backend_step step = {.scalars = {.step = 1, .gradient_scale = 1},
                                .phases = PROGRAM_FORWARD};
    struct way host, gpu;
    struct error error = {0};
    int64_t wrong = 0, count, seen = 0;

    way_open(&host, source, backend, device, false);
    way_open(&gpu, source, backend, device, true);
    for (;;) {
        expect(feed_fetch(host.feed, &count, &error), &error);
        if (count == 0)
            break;
        expect(feed_run(host.feed, false, &step, 1, &error), &error);
        expect(feed_run(gpu.feed, false, &step, 1, &error), &error);
        expect(session_read_output(host.session, host_rows, &error), &error);
        expect(session_read_output(gpu.session, device_rows, &error), &error);
        for (size_t i = 0; i < (size_t)count * width; i++) {
            float row = ((const float *)feed_batch(host.feed)->samples)[i];

            wrong += memcmp(&host_rows[i], &device_rows[i], 4) != 0;
            wrong += source->type == TENSOR_FLOAT32 && device_rows[i] != 2 * row;
        }
        seen += count;
    }
    if (!metrics_agree(&host, &gpu, false) || seen != source->view->count)
        wrong++;
    way_close(&host);
    way_close(&gpu);
    free(host_rows);
    free(device_rows);
    if (wrong)
        printf("  %" PRId64 " of %" PRId64 " values differ\n", wrong, seen * (int64_t)width);
    return wrong == 0;
}

/* ---- steps ---- */

/* Trains for an epoch, with at most `most` batches in a launch. */
static void train(struct way *way, const struct source *source, int most)
{
    struct backend_step steps[BACKEND_STEPS_MAX];
    int64_t samples, position = 0, done = 0;
    struct error error = {0};
    int micro_step = 0;

    for (;;) {
        int count;

        expect(feed_fetch(way->feed, &samples, &error), &error);
        if (samples == 0)
            return;
        count = feed_steps_max(way->feed) < most ? feed_steps_max(way->feed) : most;
        for (int k = 0; k < count; k++) {
            bool update;

            position += samples;
            update = micro_step + 1 == source->accumulate || position == source->view->count;
            steps[k] = (struct backend_step){
                .scalars = {.step = done + 1,
                            .batch = position,
                            .seed = 3,
                            .learning_rate = 0.01f / (float)(1 + done),
                            .gradient_scale = 1 / (float)source->accumulate,
                            .accumulate = micro_step > 0,
                            .clip_norm = 1,
                            .momentum_product = 1},
                .phases = update ? PROGRAM_STEP : PROGRAM_FORWARD | PROGRAM_BACKWARD};
            micro_step = update ? 0 : micro_step + 1;
            done += update;
        }
        expect(feed_run(way->feed, true, steps, count, &error), &error);
    }
}

static bool weights_agree(struct way *a, struct way *b)
{
    struct session_tensor tensor;
    struct error error = {0};
    bool same = metrics_agree(a, b, true);

    for (int i = 0; session_tensor(a->session, i, &tensor) == 0; i++) {
        void *left = malloc(tensor.bytes), *right = malloc(tensor.bytes);

        expect(session_read(a->session, i, left, &error), &error);
        expect(session_read(b->session, i, right, &error), &error);
        if (memcmp(left, right, tensor.bytes) != 0) {
            printf("  %s differs\n", tensor.name);
            same = false;
        }
        free(left);
        free(right);
    }
    return same;
}

static bool steps_agree(const struct source *source, const struct backend *backend,
                        struct backend_device *device)
{
    static const int most[] = {1, 4, 16, 13};
    struct way host;
    bool same = true;

    way_open(&host, source, backend, device, false);
    train(&host, source, 1);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        struct way gpu;

        way_open(&gpu, source, backend, device, true);
        train(&gpu, source, most[i]);
        if (!weights_agree(&host, &gpu)) {
            printf("  with %d batches to a launch\n", most[i]);
            same = false;
        }
        way_close(&gpu);
    }
    way_close(&host);
    return same;
}

/* ---- cases ---- */

static const struct augmentation moved = {
    .seed = 9, .crop_padding = 3, .horizontal_flip = true, .cutout_side = 5};
static const struct augmentation mixed = {.seed = 9,
                                          .label_noise = 0.2,
                                          .crop_padding = 2,
                                          .horizontal_flip = true,
                                          .mixup_alpha = 0.4,
                                          .label_smoothing = 0.1};
static const struct augmentation smoothed = {.seed = 9, .label_smoothing = 0.1};

int main(int argc, char **argv)
{
    struct backend_device_config config = {.threads = 1};
    struct backend_device *device;
    const struct backend *backend;
    struct error error = {0};
    struct dataset *images, *rows, *text;
    struct dataset_split image_split, row_split, text_split;
    struct dataset_normalisation standard, none, row_standard;
    int failed = 0;

    expect(worker_plugin_load(argc > 2 ? argv[2] : "cuda", argc > 1 ? argv[1] : NULL, &backend,
                              &error),
           &error);
    if (backend->device_open(&config, &device, &error) < 0) {
        puts(error.text);
        return error.code == -ERROR_DEVICE_LOST ? 77 : 1;
    }
    images = open_images();
    rows = open_rows();
    text = open_text();
    expect(dataset_split(images, &(struct dataset_split_config){.fraction = 0.1, .seed = 3},
                         &image_split, &error),
           &error);
    expect(dataset_split(rows, &(struct dataset_split_config){.fraction = 0.1, .seed = 3},
                         &row_split, &error),
           &error);
    expect(dataset_split(text, &(struct dataset_split_config){.fraction = 0.1, .seed = 3},
                         &text_split, &error),
           &error);
    expect(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &image_split.train, &standard,
                                         &error),
           &error);
    expect(dataset_normalisation_measure(DATASET_NORMALISE_NONE, &image_split.train, &none, &error),
           &error);
    expect(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &row_split.train,
                                         &row_standard, &error),
           &error);

    const struct {
        const char *name;
        struct source source;
    } cases[] = {
        {"images", {&image_split.train, &standard, NULL, TENSOR_FLOAT32, false, 1}},
        {"images of the validation part",
         {&image_split.validation, &none, NULL, TENSOR_FLOAT32, false, 1}},
        {"cropped, flipped, cut out",
         {&image_split.train, &standard, &moved, TENSOR_FLOAT32, false, 1}},
        {"cropped, flipped, without normalisation",
         {&image_split.train, &none, &moved, TENSOR_FLOAT32, false, 1}},
        {"mixed, noisy, smoothed",
         {&image_split.train, &standard, &mixed, TENSOR_FLOAT32, false, 1}},
        {"smoothed", {&image_split.train, &standard, &smoothed, TENSOR_FLOAT32, false, 1}},
        {"in bfloat16", {&image_split.train, &standard, &moved, TENSOR_BFLOAT16, false, 1}},
        {"in float16", {&image_split.train, &standard, &mixed, TENSOR_FLOAT16, false, 1}},
        {"rows", {&row_split.train, &row_standard, NULL, TENSOR_FLOAT32, false, 1}},
        {"training", {&image_split.train, &standard, &moved, TENSOR_FLOAT32, true, 1}},
        {"training on mixed images",
         {&image_split.train, &standard, &mixed, TENSOR_FLOAT32, true, 1}},
        {"training, accumulating",
         {&row_split.train, &row_standard, NULL, TENSOR_FLOAT32, true, 3}},
        {"training on text", {&text_split.train, NULL, NULL, TENSOR_FLOAT32, true, 1}},
    };
    int count = sizeof cases / sizeof *cases;

    for (int i = 0; i < count; i++) {
        bool same = cases[i].source.learns ? steps_agree(&cases[i].source, backend, device)
                                           : batches_agree(&cases[i].source, backend, device);

        printf("%s %s\n", same ? "ok  " : "FAIL", cases[i].name);
        failed += !same;
    }
    printf("%d of %d cases are the same bits\n", count - failed, count);
    dataset_normalisation_release(&standard);
    dataset_normalisation_release(&none);
    dataset_normalisation_release(&row_standard);
    dataset_split_release(&image_split);
    dataset_split_release(&row_split);
    dataset_split_release(&text_split);
    dataset_close(images);
    dataset_close(rows);
    dataset_close(text);
    backend->device_close(device);
    return failed > 0;
}
