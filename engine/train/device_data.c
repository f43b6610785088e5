/* device_data.c: see device_data.h. */
#include "engine/train/device_data.h"

#include "base/cleanup.h"
#include "engine/data/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 4 << 20 }; /* of the buffer that gathers samples */

static bool is_text(const struct dataset *dataset)
{
    return dataset_format_is_text(dataset->format);
}

static enum backend_element element_of(const struct dataset *dataset)
{
    return dataset->letter_first                 ? BACKEND_INT32 /* tokens, padded */
           : dataset->element == DATASET_UINT8   ? BACKEND_UINT8
           : dataset->element == DATASET_FLOAT32 ? BACKEND_FLOAT32
                                                 : BACKEND_INT32;
}

bool device_data_is_possible(const struct dataset *dataset,
                             const struct dataset_normalisation *normalisation)
{
    bool features = dataset->rank == 2 && normalisation && normalisation->groups > 1;
    bool labels = dataset->labels_each ||
                  (dataset->target == DATASET_TARGET_CLASS && dataset->target_width > 1);

    return dataset->format != DATASET_TIME_SERIES && !features && !labels && !dataset->lengths;
}

struct backend_data_config device_data_describe(const struct dataset *dataset,
                                                const struct dataset_normalisation *normalisation,
                                                const struct augmentation *augmentation)
{
    bool image = dataset->rank == 3;
    struct backend_data_config config = {
        .element = element_of(dataset),
        .count = dataset->count,
        .elements =
            is_text(dataset) ? dataset->symbol_count : dataset->count * dataset->sample_elements,
        .sample_stride = is_text(dataset) ? 1 : dataset->sample_elements,
        .channels = image ? dataset->shape[0] : 1,
        .height = image ? dataset->shape[1] : 1,
        .width = image ? dataset->shape[2] : dataset->sample_elements,
        .symbols = dataset_format_has_symbols(dataset->format),
        .target_width = dataset->target == DATASET_TARGET_VALUE ? dataset->target_width : 0,
        .classes = dataset->classes};

    if (normalisation) {
        config.groups = normalisation->groups;
        config.mean = normalisation->mean;
        config.factor = normalisation->factor;
    }
    if (augmentation) {
        config.seed = augmentation->seed;
        config.crop_padding = augmentation->crop_padding;
        config.cutout_side = augmentation->cutout_side;
        config.horizontal_flip = augmentation->horizontal_flip;
        config.mixes = augmentation->mixup_alpha > 0;
        config.soft = augmentation_is_soft(augmentation);
        config.label_smoothing = augmentation->label_smoothing;
    }
    return config;
}

static size_t raw_bytes(const struct dataset *dataset)
{
    bool bytes = dataset->element == DATASET_UINT8 && !dataset->letter_first;

    return (size_t)dataset->sample_elements * (bytes ? 1 : 4);
}

/* Writes samples first to last, which are not adjacent in the data set or have another form in a
 * batch. */
static int write_apart(const struct backend *backend, struct backend_data *data,
                       const struct dataset *dataset, int64_t first, int64_t last,
                       struct error *error)
{
    size_t bytes = raw_bytes(dataset);
    int64_t chunk = (int64_t)(CHUNK_BYTES / bytes) + 1;
    AUTO_FREE uint8_t *packed = malloc((size_t)chunk * bytes);
    int r = 0;

    if (!packed)
        return error_set_errno(error, -ENOMEM, "cannot bring the data to the device");
    while (r == 0 && first < last) {
        int64_t count = last - first < chunk ? last - first : chunk;

        for (int64_t i = 0; i < count; i++) {
            const uint8_t *raw = gather_sample(dataset, first + i, error);

            if (dataset->letter_first)
                gather_row(dataset, NULL, first + i, raw, packed + (size_t)i * bytes);
            else
                memcpy(packed + (size_t)i * bytes, raw, bytes);
        }
        r = backend->data_write(data, first * dataset->sample_elements,
                                count * dataset->sample_elements, packed, error);
        first += count;
    }
    return r;
}

static int write_samples(const struct backend *backend, struct backend_data *data,
                         const struct dataset *dataset, struct error *error)
{
    int r = 0;

    if (is_text(dataset)) /* the samples of a text overlap in one block */
        return backend->data_write(data, 0, dataset->symbol_count, dataset->samples[0], error);
    for (int b = 0; r == 0 && b < dataset->block_count; b++) {
        int64_t first = dataset->block_first[b], last = dataset->block_first[b + 1];

        r = dataset->sample_stride == raw_bytes(dataset) && !dataset->letter_first
                ? backend->data_write(data, first * dataset->sample_elements,
                                      (last - first) * dataset->sample_elements,
                                      dataset->samples[b], error)
                : write_apart(backend, data, dataset, first, last, error);
    }
    return r;
}

static int write_labels(const struct backend *backend, struct backend_data *data,
                        const struct dataset *dataset, const struct augmentation *augmentation,
                        const struct dataset_view *augmented, struct error *error)
{
    AUTO_FREE int32_t *labels = malloc((size_t)dataset->count * sizeof *labels);

    if (!labels)
        return error_set_errno(error, -ENOMEM, "cannot bring the labels to the device");
    for (int64_t i = 0; i < dataset->count; i++)
        labels[i] = gather_label(dataset, i, gather_sample(dataset, i, error));
    for (int64_t i = 0; augmented && augmentation && i < augmented->count; i++) {
        int64_t index = dataset_view_index(augmented, i);

        labels[index] = augmentation_label(augmentation, dataset->classes, index, labels[index]);
    }
    return backend->data_write_targets(data, 0, dataset->count, labels, error);
}

int device_data_write(const struct backend *backend, struct backend_data *data,
                      const struct dataset *dataset, const struct augmentation *augmentation,
                      const struct dataset_view *augmented, struct error *error)
{
    int r = dataset_check_files(dataset, error);

    if (r == 0)
        r = write_samples(backend, data, dataset, error);
    if (r < 0)
        return r;
    if (dataset->target == DATASET_TARGET_VALUE)
        return backend->data_write_targets(data, 0, dataset->count, dataset->targets, error);
    return write_labels(backend, data, dataset, augmentation, augmented, error);
}
