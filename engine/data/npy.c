/* npy.c: reads samples and labels from .npy files (npy_format.h). One or several files hold the
 * samples, and one file holds the labels or values of all of them; another one may hold the lengths
 * of sequences. uint8 and float32 stay mapped.
 * Other numbers, and images whose channels come last, are converted into a buffer. */
#include "base/cleanup.h"
#include "engine/data/npy_format.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OTHER_ARRAYS = 3 /* beside the samples: labels, lengths, weights */ };
enum { CHANNELS_MAX = 4 /* a last dimension of at most this looks like an image's channels */ };

struct npy_reader {
    const struct dataset_config *config;
    struct dataset *dataset;
    struct npy_array *arrays; /* [path_count], owned */
    uint8_t **reordered;      /* copies of arrays in another order; owned, with what they hold */
    int reordered_count;
    bool channels_last, copies;
    int64_t source_shape[DATASET_RANK_MAX]; /* the shape of one sample in the file */
};

static int array_open(struct npy_reader *reader, const char *path, struct npy_array *array,
                      const char **full_path, struct error *error)
{
    const struct dataset_mapping *mapping;
    int r = reader_map(reader->dataset, reader->config->directory, path, &mapping, error);

    if (r < 0)
        return r;
    *full_path = mapping->path;
    r = npy_parse(mapping->path, mapping->address, mapping->bytes, array, error);
    if (r == 0)
        r = npy_normalise(mapping->path, array, &reader->reordered[reader->reordered_count], error);
    if (r == 0)
        reader->reordered_count++;
    return r;
}

/* ---- the samples ---- */

/* [n,steps] holds sequences of one feature. */
static int sequence_shape_choose(struct npy_reader *reader, const char *path, struct error *error)
{
    const struct npy_array *array = &reader->arrays[0];
    int64_t features = array->rank == 3 ? array->extent[2] : 1;

    if (array->rank != 2 && array->rank != 3)
        return error_set(error, -EINVAL,
                         "the layout is sequence, but %s has %d dimensions instead of samples, "
                         "steps and features",
                         path, array->rank);
    reader_set_shape(reader->dataset, (const int64_t[]){array->extent[1], features}, 2);
    return 0;
}

/* [n,h,w] holds images with one channel, as in an idx file, unless `shape` says otherwise. */
static int shape_choose(struct npy_reader *reader, const char *path, struct error *error)
{
    const struct dataset_config *config = reader->config;
    const struct npy_array *array = &reader->arrays[0];
    struct dataset *dataset = reader->dataset;
    int64_t shape[DATASET_RANK_MAX] = {1}, elements = array->elements / array->extent[0];
    int rank = array->rank - 1, first = rank == 2;
    char text[128], other[128];

    if (config->layout == DATASET_LAYOUT_SEQUENCE && !config->rank)
        return sequence_shape_choose(reader, path, error);
    if (config->rank) {
        reader_set_shape(dataset, config->shape, config->rank);
        if (dataset->sample_elements != elements)
            return error_set(error, -EINVAL,
                             "the samples of %s have the shape %s, which cannot become %s; correct "
                             "the shape",
                             path, reader_format_shape(array->extent + 1, rank, text, sizeof text),
                             reader_format_shape(config->shape, config->rank, other, sizeof other));
    } else if (rank > 3) {
        return error_set(error, -EINVAL,
                         "%s has %d dimensions; samples have 1 to 4, the first of which counts "
                         "them: say the shape of one",
                         path, array->rank);
    } else {
        memcpy(shape + first, array->extent + 1, (size_t)rank * sizeof *shape);
        rank = array->rank == 1 ? 1 : rank + first;
        reader_set_shape(dataset, shape, rank);
    }
    memcpy(reader->source_shape, dataset->shape, sizeof reader->source_shape);
    return 0;
}

static int layout_choose(struct npy_reader *reader, const char *path, struct error *error)
{
    enum dataset_layout layout = reader->config->layout;
    struct dataset *dataset = reader->dataset;
    const int64_t *shape = reader->source_shape;
    char text[128];

    if (layout == DATASET_LAYOUT_AUTO && dataset->rank == 3 && shape[2] <= CHANNELS_MAX &&
        shape[0] > CHANNELS_MAX)
        return error_set(error, -EINVAL,
                         "the samples of %s have the shape %s, which looks like height, width, "
                         "channels; set the layout to hwc, or to chw if the channels do come first",
                         path, reader_format_shape(shape, 3, text, sizeof text));
    if (layout != DATASET_LAYOUT_HWC)
        return 0;
    if (dataset->rank != 3)
        return error_set(error, -EINVAL,
                         "the layout is hwc, but the samples of %s have %d dimensions instead of "
                         "height, width and channels",
                         path, dataset->rank);
    reader->channels_last = true;
    reader_set_shape(dataset, (const int64_t[]){shape[2], shape[0], shape[1]}, 3);
    return 0;
}

static int samples_compare(const struct npy_reader *reader, int file, const char *path,
                           struct error *error)
{
    const struct npy_array *array = &reader->arrays[file], *first = &reader->arrays[0];

    if (array->rank == 0)
        return error_set(error, -EINVAL, "%s holds one number and no samples", path);
    if (array->type == first->type && array->rank == first->rank &&
        memcmp(array->extent + 1, first->extent + 1,
               (size_t)(array->rank - 1) * sizeof *array->extent) == 0)
        return 0;
    char own[128], other[128];
    return error_set(error, -EINVAL,
                     "%s holds samples of %s %s, the first file of %s %s; files that are joined "
                     "must agree",
                     path, npy_type_to_string(array->type),
                     reader_format_shape(array->extent + 1, array->rank - 1, own, sizeof own),
                     npy_type_to_string(first->type),
                     reader_format_shape(first->extent + 1, first->rank - 1, other, sizeof other));
}

static int samples_open(struct npy_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    int r = 0;

    for (int i = 0; r == 0 && i < config->path_count; i++) {
        const char *path;

        r = array_open(reader, config->paths[i], &reader->arrays[i], &path, error);
        if (r == 0)
            r = samples_compare(reader, i, path, error);
        if (r == 0 && i == 0)
            r = shape_choose(reader, path, error);
        if (r == 0 && i == 0)
            r = layout_choose(reader, path, error);
        reader->copies |= r == 0 && reader->reordered[i];
        /* float32 at an unaligned address has to be copied */
        reader->copies |= r == 0 && reader->arrays[i].type == NPY_FLOAT32 &&
                          (uintptr_t)reader->arrays[i].data % sizeof(float);
    }
    return r;
}

/* Transposes [h][w][c] to [c][h][w], with elements of `size` bytes. */
static void sample_transpose(const struct dataset *dataset, const uint8_t *from, uint8_t *to,
                             size_t size)
{
    int64_t channels = dataset->shape[0], pixels = dataset->shape[1] * dataset->shape[2];

    for (int64_t c = 0; c < channels; c++)
        for (int64_t p = 0; p < pixels; p++)
            memcpy(to + (size_t)(c * pixels + p) * size, from + (size_t)(p * channels + c) * size,
                   size);
}

/* Copies one file's samples into the buffer, at `to`. */
static int samples_copy(const struct npy_reader *reader, int file, uint8_t *to, struct error *error)
{
    const struct npy_array *array = &reader->arrays[file];
    bool reordered = reader->reordered[file] != NULL;
    const struct dataset *dataset = reader->dataset;
    int64_t elements = dataset->sample_elements;
    bool bytes = dataset->element == DATASET_UINT8;
    size_t sample_bytes = (size_t)elements * npy_type_bytes(array->type);
    AUTO_FREE float *row = malloc((size_t)elements * sizeof *row);
    const uint8_t *done = array->data;

    if (!row)
        return reader_out_of_memory(reader->config->paths[0], error);
    for (int64_t i = 0; i < array->extent[0]; i++, to += dataset->sample_stride) {
        const uint8_t *from = array->data + (size_t)i * sample_bytes;

        if (!reordered && from - done > READER_DROP_BYTES)
            done = reader_drop_pages(done, from);

        if (!bytes) {
            npy_to_floats(array, i * elements, elements, row);
            from = (const uint8_t *)row;
        }
        if (reader->channels_last)
            sample_transpose(dataset, from, to, bytes ? 1 : sizeof(float));
        else
            memcpy(to, from, dataset->sample_stride);
    }
    return 0;
}

static int samples_check_finite(const struct dataset *dataset, struct error *error)
{
    for (int b = 0; b < dataset->block_count; b++) {
        int64_t count = dataset->block_first[b + 1] - dataset->block_first[b];
        const float *values = (const float *)(const void *)dataset->samples[b];
        int64_t bad = reader_find_nonfinite(values, count * dataset->sample_elements);

        if (bad >= 0)
            return error_set(error, -EINVAL,
                             "%s: element %lld of sample %lld is %g%s; samples must be finite "
                             "float32 numbers",
                             dataset->mappings[b].path, (long long)(bad % dataset->sample_elements),
                             (long long)(bad / dataset->sample_elements), (double)values[bad],
                             isinf(values[bad]) ? " (or beyond float32, 3.4e38)" : "");
    }
    return 0;
}

static int samples_read(struct npy_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    enum npy_type type;
    uint8_t *at = NULL;
    size_t bytes = 0;
    int r = samples_open(reader, error);

    if (r < 0)
        return r;
    type = reader->arrays[0].type;
    dataset->element = type == NPY_UINT8 ? DATASET_UINT8 : DATASET_FLOAT32;
    dataset->sample_stride = (size_t)dataset->sample_elements * (type == NPY_UINT8 ? 1 : 4);
    reader->copies |= reader->channels_last || (type != NPY_UINT8 && type != NPY_FLOAT32);
    for (int i = 0; i < reader->config->path_count; i++)
        bytes += (size_t)reader->arrays[i].extent[0] * dataset->sample_stride;
    if (reader->copies) {
        dataset->buffer = at = malloc(bytes);
        if (!at)
            return reader_out_of_memory(reader->config->paths[0], error);
        dataset->memory_bytes += bytes;
    }
    for (int i = 0; r == 0 && i < reader->config->path_count; i++) {
        const struct npy_array *array = &reader->arrays[i];

        if (at)
            r = samples_copy(reader, i, at, error);
        if (r == 0)
            r = reader_add_block(dataset, at ? at : array->data, array->extent[0], error);
        if (at)
            at += (size_t)array->extent[0] * dataset->sample_stride;
    }
    if (r == 0 && dataset->element == DATASET_FLOAT32)
        r = samples_check_finite(dataset, error);
    return r;
}

/* ---- what is to be predicted ---- */

static int labels_read(const struct npy_array *array, const char *path, int32_t limit,
                       struct dataset *dataset, struct error *error)
{
    int64_t highest = 0, width = array->elements / array->extent[0];

    if (!npy_type_is_integer(array->type))
        return error_set(error, -EINVAL,
                         "%s holds %s; the labels of classes are whole numbers: convert them, or "
                         "choose mean squared error for values",
                         path, npy_type_to_string(array->type));
    if (width > INT32_MAX)
        return error_set(error, -EINVAL, "%s has too many labels for each sample", path);
    dataset->target_width = (int32_t)width;
    dataset->labels = malloc((size_t)array->elements * sizeof *dataset->labels);
    if (!dataset->labels)
        return reader_out_of_memory(path, error);
    for (int64_t i = 0; i < array->elements; i++) {
        int64_t label = npy_integer(array, i);

        if (label < 0 || label > INT32_MAX - 1)
            return error_set(error, -EINVAL,
                             "%s: label %lld of sample %lld is no class: labels are whole numbers "
                             "from 0",
                             path, (long long)label, (long long)(i / width));
        if (limit && label >= limit)
            return error_set(error, -EINVAL,
                             "%s: label %lld of sample %lld is not below the %d classes; correct "
                             "the label or raise the number of classes",
                             path, (long long)label, (long long)(i / width), limit);
        highest = label > highest ? label : highest;
        dataset->labels[i] = (int32_t)label;
    }
    dataset->classes = limit ? limit : (int32_t)highest + 1;
    dataset->memory_bytes += (size_t)array->elements * sizeof *dataset->labels;
    return 0;
}

static int values_read(const struct npy_array *array, const char *path, struct dataset *dataset,
                       struct error *error)
{
    int64_t width = array->elements / array->extent[0], bad;

    if (width > INT32_MAX)
        return error_set(error, -EINVAL, "%s has too many values for each sample", path);
    dataset->targets = malloc((size_t)array->elements * sizeof *dataset->targets);
    if (!dataset->targets)
        return reader_out_of_memory(path, error);
    npy_to_floats(array, 0, array->elements, dataset->targets);
    bad = reader_find_nonfinite(dataset->targets, array->elements);
    if (bad >= 0)
        return error_set(error, -EINVAL,
                         "%s: value %lld of sample %lld is %g; values must be finite float32 "
                         "numbers",
                         path, (long long)(bad % width), (long long)(bad / width),
                         (double)dataset->targets[bad]);
    dataset->target_width = (int32_t)width;
    dataset->memory_bytes += (size_t)array->elements * sizeof *dataset->targets;
    return 0;
}

static int targets_read(struct npy_reader *reader, const struct dataset *reference,
                        struct error *error)
{
    struct dataset *dataset = reader->dataset;
    struct npy_array array;
    const char *path;
    int r;

    if (reader->config->unlabelled) {
        dataset->classes = reference->classes;
        dataset->target_width = reference->target_width;
        return reader_zero_labels(dataset, dataset->count, error);
    }
    r = array_open(reader, reader->config->labels_path, &array, &path, error);
    if (r < 0)
        return r;
    if (array.rank == 0 || array.extent[0] != dataset->count)
        return error_set(
            error, -EINVAL, "%s holds %lld samples, but %s %lld labels; take the files of one set",
            reader->config->path_count == 1 ? dataset->mappings[0].path : "the joined files",
            (long long)dataset->count, path, array.rank ? (long long)array.extent[0] : 1LL);
    if (dataset->target == DATASET_TARGET_VALUE)
        return values_read(&array, path, dataset, error);
    return labels_read(&array, path, reader_class_limit(reader->config, reference), dataset, error);
}

/* ---- what samples count ---- */

/* A set that trains alone has weights. */
static int weights_read(struct npy_reader *reader, const struct dataset *reference,
                        struct error *error)
{
    struct dataset *dataset = reader->dataset;
    struct npy_array array;
    const char *path;
    int r;

    if (!reader->config->weights_path || reference)
        return 0;
    r = array_open(reader, reader->config->weights_path, &array, &path, error);
    if (r < 0)
        return r;
    if (array.rank != 1 || array.extent[0] != dataset->count)
        return error_set(error, -EINVAL,
                         "%s must hold %lld numbers, one for each sample, but it has %lld in %d "
                         "dimensions",
                         path, (long long)dataset->count, (long long)array.elements, array.rank);
    dataset->sample_weights = malloc((size_t)dataset->count * sizeof *dataset->sample_weights);
    if (!dataset->sample_weights)
        return reader_out_of_memory(path, error);
    dataset->memory_bytes += (size_t)dataset->count * sizeof *dataset->sample_weights;
    npy_to_floats(&array, 0, array.elements, dataset->sample_weights);
    for (int64_t i = 0; i < dataset->count; i++)
        if (!(dataset->sample_weights[i] >= 0) || isinf(dataset->sample_weights[i]))
            return error_set(error, -EINVAL,
                             "%s: the weight of sample %lld is %g; weights are numbers from 0",
                             path, (long long)i, (double)dataset->sample_weights[i]);
    return 0;
}

/* ---- how long sequences are ---- */

static int lengths_copy(const struct npy_array *array, const char *path, struct dataset *dataset,
                        struct error *error)
{
    dataset->lengths = malloc((size_t)dataset->count * sizeof *dataset->lengths);
    if (!dataset->lengths)
        return reader_out_of_memory(path, error);
    dataset->memory_bytes += (size_t)dataset->count * sizeof *dataset->lengths;
    for (int64_t i = 0; i < dataset->count; i++) {
        int64_t length = npy_integer(array, i);

        if (length < 1 || length > dataset->shape[0])
            return error_set(error, -EINVAL,
                             "%s: sample %lld has %lld steps; a length is 1 to %lld, the steps "
                             "that all samples hold with their padding",
                             path, (long long)i, (long long)length, (long long)dataset->shape[0]);
        dataset->lengths[i] = (int32_t)length;
    }
    return 0;
}

static int lengths_read(struct npy_reader *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;
    struct npy_array array;
    const char *path;
    int r;

    if (!reader->config->lengths_path)
        return 0;
    if (reader->config->layout != DATASET_LAYOUT_SEQUENCE || dataset->rank != 2)
        return error_set(error, -EINVAL,
                         "data has lengths, which only sequences have; set the layout to sequence, "
                         "and leave the shape out or give it as [steps, features]");
    r = array_open(reader, reader->config->lengths_path, &array, &path, error);
    if (r < 0)
        return r;
    if (array.rank != 1 || array.extent[0] != dataset->count || !npy_type_is_integer(array.type))
        return error_set(error, -EINVAL,
                         "%s must hold %lld whole numbers, one for each sample, but it has %lld "
                         "of %s in %d dimensions",
                         path, (long long)dataset->count, (long long)array.elements,
                         npy_type_to_string(array.type), array.rank);
    return lengths_copy(&array, path, dataset, error);
}

int npy_read(const struct dataset_config *config, const struct dataset *reference,
             struct dataset *dataset, struct error *error)
{
    struct npy_reader reader = {.config = config, .dataset = dataset};
    int r;

    reader.arrays = calloc((size_t)config->path_count, sizeof *reader.arrays);
    reader.reordered = calloc((size_t)config->path_count + OTHER_ARRAYS, sizeof *reader.reordered);
    if (!reader.arrays || !reader.reordered) {
        free(reader.arrays);
        free(reader.reordered);
        return reader_out_of_memory(config->paths[0], error);
    }
    r = samples_read(&reader, error);
    if (r == 0)
        r = targets_read(&reader, reference, error);
    if (r == 0)
        r = lengths_read(&reader, error);
    if (r == 0)
        r = weights_read(&reader, reference, error);
    for (int i = 0; i < reader.reordered_count; i++)
        free(reader.reordered[i]);
    free(reader.reordered);
    free(reader.arrays);
    if (r == 0 && reader.copies)
        reader_unmap_all(dataset);
    return r;
}
