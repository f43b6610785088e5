/* launch_speed [PLUGIN [HIDDEN [BACKEND]]]: measures the microseconds of a training step on a GPU,
 * for an MLP 784-HIDDEN-10 with batches of 128. BACKEND is cuda unless it is given. Batches come
 * from a loader, or from data in the memory of the device, plain or augmented, with several numbers
 * of steps in a launch. After each it prints how much of that memory the process holds, too. */
#include "base/clock.h"
#include "engine/data/augmentation.h"
#include "engine/graph/forward.h"
#include "engine/train/device_data.h"
#include "engine/train/feed.h"
#include "worker/trainee/worker_plugin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 60032, SIDE = 28, ELEMENTS = SIDE * SIDE, BATCH = 128, EPOCHS = 6 };

static int64_t hidden = 256;

static void expect(int result, const struct error *error)
{
    if (result == 0)
        return;
    fprintf(stderr, "%s\n", error->text);
    exit(1);
}

static struct dataset *open_images(void)
{
    char images[64] = "/tmp/images.XXXXXX", labels[64] = "/tmp/labels.XXXXXX";
    const char *path = images;
    struct dataset_config config = {
        .format = DATASET_IDX, .paths = &path, .path_count = 1, .labels_path = labels};
    const uint8_t head[] = {0, 0, 8, 4, 0, 0,    COUNT >> 8, COUNT & 255, 0, 0,
                            0, 1, 0, 0, 0, SIDE, 0,          0,           0, SIDE};
    FILE *file = fdopen(mkstemp(images), "wb"), *label_file = fdopen(mkstemp(labels), "wb");
    struct dataset *dataset = NULL;
    struct error error = {0};

    if (!file || !label_file)
        exit(1);
    fwrite(head, 1, sizeof head, file);
    fwrite((uint8_t[]){0, 0, 8, 1, 0, 0, COUNT >> 8, COUNT & 255}, 1, 8, label_file);
    for (uint32_t i = 0; i < (uint32_t)COUNT * ELEMENTS; i++)
        fputc((int)(i * 2654435761u >> 24), file);
    for (int i = 0; i < COUNT; i++)
        fputc(i % 10, label_file);
    fclose(file);
    fclose(label_file);
    expect(dataset_open(&config, NULL, &dataset, &error), &error);
    unlink(images);
    unlink(labels);
    return dataset;
}

static int build(void *context, struct graph *graph, struct error *error)
{
    int32_t x = graph_input(graph, TENSOR_FLOAT32, (int64_t[]){1, SIDE, SIDE}, 3);

    (void)context;
    x = graph_linear(graph, graph_flatten(graph, x, "0"), "1", hidden, true);
    x = graph_linear(graph, graph_activation(graph, x, "2", ACTIVATION_RELU), "3", 10, true);
    graph_cross_entropy(graph, x);
    return graph->error.code ? error_set(error, graph->error.code, "%s", graph->error.text) : 0;
}

/* Returns the time of the fastest of some epochs. */
static double time_steps(struct session *session, struct feed *feed, int most)
{
    struct backend_step steps[BACKEND_STEPS_MAX];
    struct step_metrics metrics;
    struct error error = {0};
    double best = 1e9;
    int64_t step = 0;

    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        double begin = clock_monotonic();
        int64_t samples, batches = 0;

        expect(feed_begin_epoch(feed, epoch, 0, &error), &error);
        while (feed_fetch(feed, &samples, &error) == 0 && samples > 0) {
            int count = feed_steps_max(feed) < most ? feed_steps_max(feed) : most;

            for (int k = 0; k < count; k++, step++)
                steps[k] = (struct backend_step){.scalars = {.step = step + 1,
                                                             .batch = step,
                                                             .learning_rate = 1e-3f,
                                                             .gradient_scale = 1,
                                                             .momentum_product = 1},
                                                 .phases = PROGRAM_STEP};
            expect(feed_run(feed, true, steps, count, &error), &error);
            batches += count;
        }
        expect(feed_prepare_epoch(feed, epoch + 1, &error), &error);
        session_read_metrics(session, true, &metrics);
        if (epoch > 0 && (clock_monotonic() - begin) / (double)batches < best)
            best = (clock_monotonic() - begin) / (double)batches;
        feed_end_epoch(feed);
    }
    return best;
}

static void show(const char *name, const struct dataset *dataset,
                 const struct dataset_normalisation *normalisation,
                 const struct augmentation *augmentation, const struct backend *backend,
                 struct backend_device *device, int most)
{
    struct feed_config config = {.loader = {.view = dataset_view_all(dataset),
                                            .normalisation = normalisation,
                                            .augmentation = augmentation,
                                            .batch = BATCH,
                                            .shuffle = true,
                                            .threads = 4},
                                 .data = most ? 0 : -1};
    struct session_config wanted = {
        .backend = backend,
        .device = device,
        .build = build,
        .optimizer = {.kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
        .training_batches = {BATCH},
        .staging_bytes = most ? 0 : loader_memory_bytes(&config.loader),
        .data_count = most > 0};
    struct error error = {0};
    struct feed *feed = NULL;
    double seconds;

    if (most) {
        wanted.data[0] = device_data_describe(dataset, normalisation, augmentation);
        wanted.data[0].orders = feed_orders(&config.loader);
        wanted.data[0].batch = BATCH;
    }
    expect(session_prepare(&wanted, &config.session, &error), &error);
    expect(session_allocate(config.session, &error), &error);
    if (most)
        expect(device_data_write(backend, session_data(config.session, 0), dataset, augmentation,
                                 &config.loader.view, &error),
               &error);
    config.memory = session_staging(config.session);
    expect(feed_create(&config, &feed, &error), &error);
    seconds = time_steps(config.session, feed, most ? most : 1);
    printf("%-28s %8.2f us a step, %10.0f samples/s, %8.1f MiB, arena %.1f\n", name, seconds * 1e6,
           BATCH / seconds,
           backend->device_memory_used ? (double)backend->device_memory_used(device) / 0x1p20 : NAN,
           (double)session_memory(config.session)->arena_bytes / 0x1p20);
    feed_free(feed);
    session_free(config.session);
}

int main(int argc, char **argv)
{
    static const struct augmentation moved = {.crop_padding = 4, .horizontal_flip = true};
    static const int lengths[] = {1, 4, 16, 64};
    struct backend_device_config config = {.threads = 1};
    struct dataset *dataset = open_images();
    struct dataset_view all = dataset_view_all(dataset);
    struct dataset_normalisation standard;
    struct backend_device *device;
    const struct backend *backend;
    struct error error = {0};

    hidden = argc > 2 ? atoi(argv[2]) : hidden;
    expect(dataset_normalisation_measure(DATASET_NORMALISE_STANDARD, &all, &standard, &error),
           &error);
    expect(worker_plugin_load(argc > 3 ? argv[3] : "cuda", argc > 1 ? argv[1] : NULL, &backend,
                              &error),
           &error);
    expect(backend->device_open(&config, &device, &error), &error);
    show("by a loader", dataset, &standard, NULL, backend, device, 0);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char name[64];

        snprintf(name, sizeof name, "%d to a launch", lengths[i]);
        show(name, dataset, &standard, NULL, backend, device, lengths[i]);
        snprintf(name, sizeof name, "%d, cropped and flipped", lengths[i]);
        show(name, dataset, &standard, &moved, backend, device, lengths[i]);
    }
    backend->device_close(device);
    dataset_normalisation_release(&standard);
    dataset_close(dataset);
    return 0;
}
