/* gather.c: copies samples into the rows of a batch; see gather.h. */
#include "engine/data/gather.h"

#include "engine/data/reader.h"
#include "engine/data/tokens.h"

#include <errno.h>
#include <string.h>

size_t dataset_sample_bytes(const struct dataset *dataset)
{
    return (size_t)dataset->sample_elements * 4; /* an element is float32 or int32 */
}

size_t dataset_target_bytes(const struct dataset *dataset)
{
    return (size_t)(dataset->labels_each ? dataset->sample_elements : dataset->target_width) * 4;
}

CONVERSION static void convert_bytes(const uint8_t *raw, float *output, int64_t count, float mean,
                                     float factor)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = ((float)raw[i] - mean) * factor;
}

CONVERSION static void convert_bytes_by_element(const uint8_t *raw, float *output, int64_t count,
                                                const float *mean, const float *factor)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = ((float)raw[i] - mean[i]) * factor[i];
}

CONVERSION static void convert_floats(const float *raw, float *output, int64_t count, float mean,
                                      float factor)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = (raw[i] - mean) * factor;
}

CONVERSION static void convert_floats_by_element(const float *raw, float *output, int64_t count,
                                                 const float *mean, const float *factor)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = (raw[i] - mean[i]) * factor[i];
}

CONVERSION static void convert_symbols(const uint8_t *raw, int32_t *output, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        output[i] = raw[i];
}

void gather_convert(const struct dataset *dataset, const uint8_t *raw, int64_t first, int64_t count,
                    float mean, float factor, float *output)
{
    if (dataset->element == DATASET_UINT8)
        convert_bytes(raw + first, output, count, mean, factor);
    else
        convert_floats((const float *)(const void *)raw + first, output, count, mean, factor);
}

static void normalise_sample(const struct dataset *dataset,
                             const struct dataset_normalisation *normalisation, const uint8_t *raw,
                             float *row)
{
    int64_t elements = dataset->sample_elements;
    int64_t groups = normalisation->groups, size = elements / groups;
    const float *mean = normalisation->mean, *factor = normalisation->factor;
    const float *floats = (const float *)raw;
    bool bytes = dataset->element == DATASET_UINT8;

    if (normalisation->kind == DATASET_NORMALISE_NONE && !bytes) {
        memcpy(row, raw, (size_t)elements * sizeof *row);
    } else if (dataset->rank == 2 && groups > 1) { /* rows of features */
        for (int64_t first = 0; first < elements; first += groups)
            if (bytes)
                convert_bytes_by_element(raw + first, row + first, groups, mean, factor);
            else
                convert_floats_by_element(floats + first, row + first, groups, mean, factor);
    } else if (size == 1) {
        if (bytes)
            convert_bytes_by_element(raw, row, elements, mean, factor);
        else
            convert_floats_by_element(floats, row, elements, mean, factor);
    } else {
        for (int64_t g = 0; g < groups; g++)
            gather_convert(dataset, raw, g * size, size, mean[g], factor[g], row + g * size);
    }
}

int64_t dataset_sample_length(const struct dataset *dataset, int64_t index)
{
    const int64_t *first = dataset->letter_first;

    if (dataset->lengths)
        return dataset->lengths[index];
    return first ? tokens_of_letters(&dataset->vocabulary, first[index + 1] - first[index])
                 : dataset->shape[0];
}

static void write_sequence(const struct dataset *dataset, int64_t index, const uint8_t *raw,
                           int32_t *row)
{
    const int64_t *first = dataset->letter_first + index;
    int64_t tokens =
        tokens_write(&dataset->vocabulary, dataset->element, raw, first[1] - first[0], row);

    for (; tokens < dataset->sample_elements; tokens++)
        row[tokens] = dataset->vocabulary.count; /* the padding */
}

static void copy_symbols(const struct dataset *dataset, const uint8_t *raw, int32_t *row)
{
    if (dataset->element == DATASET_UINT8)
        convert_symbols(raw, row, dataset->sample_elements);
    else
        memcpy(row, raw, (size_t)dataset->sample_elements * sizeof *row);
}

static void clear_padding(const struct dataset *dataset, int64_t index, float *row)
{
    int64_t kept = dataset->lengths[index] * dataset->shape[1];

    memset(row + kept, 0, (size_t)(dataset->sample_elements - kept) * sizeof *row);
}

void gather_row(const struct dataset *dataset, const struct dataset_normalisation *normalisation,
                int64_t index, const uint8_t *raw, void *row)
{
    if (dataset->letter_first)
        write_sequence(dataset, index, raw, row);
    else if (dataset_format_has_symbols(dataset->format))
        copy_symbols(dataset, raw, row);
    else
        normalise_sample(dataset, normalisation, raw, row);
    if (dataset->lengths)
        clear_padding(dataset, index, row);
}

void dataset_gather_lengths(const struct dataset *dataset, const uint32_t *indices, int64_t count,
                            int32_t *lengths)
{
    for (int64_t i = 0; i < count; i++)
        lengths[i] = dataset->lengths[indices[i]];
}

static const int32_t *labels_of(const struct dataset *dataset, int64_t index)
{
    return dataset->labels + dataset->target_first + index * dataset->target_stride;
}

int32_t gather_label(const struct dataset *dataset, int64_t index, const uint8_t *raw)
{
    if (dataset_format_is_text(dataset->format) && dataset->element == DATASET_UINT8)
        return raw[dataset->sample_elements];
    if (dataset_format_is_text(dataset->format))
        return ((const int32_t *)(const void *)raw)[dataset->sample_elements];
    return dataset->byte_labels ? dataset->byte_labels[index] : *labels_of(dataset, index);
}

/* The symbol after each of the sample's. */
static void copy_labels(const struct dataset *dataset, int64_t index, const uint8_t *raw,
                        int32_t *labels)
{
    copy_symbols(dataset, raw + dataset->sample_stride, labels);
    if (index == dataset->count - 1)
        memset(labels, 0xff, (size_t)dataset->last_ignored * sizeof *labels); /* -1 */
}

int gather_labels(const struct dataset *dataset, int64_t index, int32_t *labels,
                  struct error *error)
{
    const uint8_t *raw = gather_sample(dataset, index, error);

    if (!raw)
        return -ERANGE;
    if (dataset->target_width == 1)
        labels[0] = gather_label(dataset, index, raw);
    else
        memcpy(labels, labels_of(dataset, index), (size_t)dataset->target_width * sizeof *labels);
    return 0;
}

const uint8_t *gather_sample(const struct dataset *dataset, int64_t index, struct error *error)
{
    if (index < dataset->count)
        return reader_sample(dataset, index);
    error_set(error, -ERANGE, "sample %lld was asked for, but the data set has only %lld",
              (long long)index, (long long)dataset->count);
    return NULL;
}

int dataset_gather(const struct dataset *dataset, const struct dataset_normalisation *normalisation,
                   const uint32_t *indices, int64_t count, void *samples, void *targets,
                   struct error *error)
{
    size_t row = dataset_sample_bytes(dataset);
    int64_t width = dataset->target_width;

    for (int64_t i = 0; i < count; i++) {
        const uint8_t *raw = gather_sample(dataset, indices[i], error);

        if (!raw)
            return -ERANGE;
        gather_row(dataset, normalisation, indices[i], raw, (uint8_t *)samples + (size_t)i * row);
        if (dataset->target == DATASET_TARGET_VALUE)
            memcpy((float *)targets + i * width, dataset_targets(dataset, indices[i]),
                   (size_t)width * sizeof(float));
        else if (width > 1 && dataset->labels)
            memcpy((int32_t *)targets + i * width, labels_of(dataset, indices[i]),
                   (size_t)width * sizeof(int32_t));
        else if (dataset->labels_each)
            copy_labels(dataset, indices[i], raw,
                        (int32_t *)targets + i * dataset->sample_elements);
        else
            ((int32_t *)targets)[i] = gather_label(dataset, indices[i], raw);
    }
    return 0;
}

int dataset_gather_bytes(const struct dataset *dataset, const uint32_t *indices, int64_t count,
                         uint8_t *samples, struct error *error)
{
    for (int64_t i = 0; i < count; i++, samples += dataset->sample_elements) {
        const uint8_t *raw = gather_sample(dataset, indices[i], error);

        if (!raw)
            return -ERANGE;
        memcpy(samples, raw, (size_t)dataset->sample_elements);
    }
    return 0;
}
