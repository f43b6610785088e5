/* loader_speed.c: how many samples a second the loader prepares, of images as CIFAR-10 has them
 * (bytes [3,32,32], batches of 128), with and without augmentation:
 *
 *   loader_speed [THREADS]...      (default: 0 1 2; 0: the caller does it)
 *
 * prints a row for each of its cases: samples a second over epochs of half a second at least. */
#include "base/clock.h"
#include "engine/data/loader.h"

#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 50000, CHANNELS = 3, SIDE = 32, SIZE = CHANNELS * SIDE * SIDE, BATCH = 128 };

static const struct {
    const char *name;
    struct augmentation augmentation;
} cases[] = {
    {"plain", {0}},
    {"random_crop:4 horizontal_flip", {.crop_padding = 4, .horizontal_flip = true}},
    {"crop, flip, cutout:8, mixup:0.2",
     {.crop_padding = 4, .horizontal_flip = true, .cutout_side = 8, .mixup_alpha = 0.2}},
};

/* Samples a second; negative with a sentence printed. */
static double measure(struct loader_config *config)
{
    void *memory = aligned_alloc(LOADER_ALIGNMENT, loader_memory_bytes(config));
    struct loader *loader = NULL;
    struct error error = {0};
    double start = 0, seconds = 0;
    int64_t samples = 0;
    int r = memory ? loader_create(config, memory, &loader, &error) : -1;

    for (uint32_t epoch = 0; r == 0 && seconds < 0.5; epoch++) {
        struct loader_batch batch = {.count = 1};

        r = loader_begin_epoch(loader, epoch, 0, &error);
        if (epoch == 1) { /* the first one warms up */
            start = clock_monotonic();
            samples = 0;
        }
        while (r == 0 && batch.count) {
            r = loader_next(loader, &batch, &error);
            samples += batch.count;
            loader_release(loader);
        }
        seconds = epoch ? clock_monotonic() - start : 0;
    }
    loader_free(loader);
    free(memory);
    if (r < 0)
        fprintf(stderr, "loader_speed: %s\n", error.text);
    return r < 0 ? -1 : (double)samples / seconds;
}

int main(int argc, char **argv)
{
    static uint8_t images[(size_t)COUNT * SIZE];
    static int32_t labels[COUNT];
    static float mean[CHANNELS] = {125, 123, 114}, factor[CHANNELS] = {0.016f, 0.016f, 0.015f};
    static char zero[] = "0", one[] = "1", two[] = "2";
    char *standard[] = {zero, one, two};
    const uint8_t *samples[] = {images};
    int64_t first[] = {0, COUNT};
    struct dataset dataset = {.rank = 3,
                              .shape = {CHANNELS, SIDE, SIDE},
                              .sample_elements = SIZE,
                              .count = COUNT,
                              .classes = 10,
                              .target_width = 1,
                              .samples = samples,
                              .block_first = first,
                              .block_count = 1,
                              .sample_stride = SIZE,
                              .labels = labels};
    struct dataset_normalisation normalisation = {
        .kind = DATASET_NORMALISE_STANDARD, .groups = CHANNELS, .mean = mean, .factor = factor};
    char **counts = argc > 1 ? argv + 1 : standard;
    int columns = argc > 1 ? argc - 1 : 3;

    for (size_t i = 0; i < sizeof images; i++)
        images[i] = (uint8_t)(i * 7);
    printf("%-32s", "samples/s with loader threads:");
    for (int t = 0; t < columns; t++)
        printf("%12d", atoi(counts[t]));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        printf("\n%-32s", cases[i].name);
        for (int t = 0; t < columns; t++) {
            struct loader_config config = {.view = dataset_view_all(&dataset),
                                           .normalisation = &normalisation,
                                           .batch = BATCH,
                                           .shuffle = true,
                                           .threads = atoi(counts[t]),
                                           .augmentation = i ? &cases[i].augmentation : NULL};
            double speed = measure(&config);

            if (speed < 0)
                return EXIT_FAILURE;
            printf("%12.0f", speed);
        }
    }
    printf("\n");
    return EXIT_SUCCESS;
}
