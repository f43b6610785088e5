/* dataset.c: opening and closing a set, its views, and the copy of samples into a batch. */
#include "engine/data/dataset.h"

#include "base/string_table.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(upper, lower, ...) [DATASET_##upper] = #lower,
static const char *const format_names[] = {DATA_FORMATS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(dataset_format, enum dataset_format, format_names)

#define READER(upper, lower, traits, ...) [DATASET_##upper] = {lower##_read, traits},
static const struct {
    dataset_reader *read;
    unsigned traits; /* enum data_format_trait */
} formats[] = {DATA_FORMATS(READER)};
#undef READER

bool dataset_format_is_text(enum dataset_format format)
{
    return formats[format].traits & DATA_FORMAT_TEXT;
}

static const char *const header_names[] = {
    [DATASET_HEADER_AUTO] = "auto", [DATASET_HEADER_YES] = "yes", [DATASET_HEADER_NO] = "no"};
DEFINE_STRING_TABLE(dataset_header, enum dataset_header, header_names)

static const char *const layout_names[] = {
    [DATASET_LAYOUT_AUTO] = "auto", [DATASET_LAYOUT_CHW] = "chw", [DATASET_LAYOUT_HWC] = "hwc"};
DEFINE_STRING_TABLE(dataset_layout, enum dataset_layout, layout_names)

/* ---- for the readers ---- */

int reader_add_block(struct dataset *dataset, const uint8_t *samples, int64_t count,
                     struct error *error)
{
    size_t blocks = (size_t)dataset->block_count;
    const uint8_t **starts = reallocarray(dataset->samples, blocks + 1, sizeof *starts);
    if (starts)
        dataset->samples = starts;
    int64_t *first = reallocarray(dataset->block_first, blocks + 2, sizeof *first);
    if (first)
        dataset->block_first = first;
    if (!starts || !first)
        return error_set(error, -ENOMEM, "not enough memory for the data set");

    if (blocks == 0)
        first[0] = 0;
    if (count > UINT32_MAX - first[blocks])
        return error_set(error, -EINVAL, "the data set has more than %u samples", UINT32_MAX);
    starts[blocks] = samples;
    first[blocks + 1] = first[blocks] + count;
    dataset->block_count++;
    dataset->count = first[blocks + 1];
    return 0;
}

void reader_set_shape(struct dataset *dataset, const int64_t *shape, int rank)
{
    dataset->rank = rank;
    dataset->sample_elements = 1;
    for (int i = 0; i < rank; i++) {
        dataset->shape[i] = shape[i];
        dataset->sample_elements *= shape[i];
    }
}

const uint8_t *reader_sample(const struct dataset *dataset, int64_t index)
{
    int block = 0;

    while (index >= dataset->block_first[block + 1]) /* a handful of files at most */
        block++;
    return dataset->samples[block] +
           (size_t)(index - dataset->block_first[block]) * dataset->sample_stride;
}

char *reader_format_shape(const int64_t *shape, int rank, char *output, size_t size)
{
    size_t used = (size_t)snprintf(output, size, "[");

    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(output + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)shape[i]);
    if (used < size)
        snprintf(output + used, size - used, "]");
    return output;
}

int64_t reader_find_nonfinite(const float *values, int64_t count)
{
    enum { CHUNK = 4096, EXPONENT = 0x7f800000 };
    typedef uint32_t __attribute__((may_alias)) float_bits;
    const float_bits *bits = (const float_bits *)values;

    for (int64_t first = 0; first < count; first += CHUNK) {
        int64_t end = count - first < CHUNK ? count : first + CHUNK;
        bool any = false;

        for (int64_t i = first; i < end; i++)
            any |= (bits[i] & EXPONENT) == EXPONENT;
        for (int64_t i = first; any && i < end; i++)
            if ((bits[i] & EXPONENT) == EXPONENT)
                return i;
    }
    return -1;
}

int32_t reader_class_limit(const struct dataset_config *config, const struct dataset *reference)
{
    return reference ? reference->classes : config->classes;
}

/* ---- opening ---- */

static int check_config(const struct dataset_config *config, struct error *error)
{
    bool has_labels = formats[config->format].traits & DATA_FORMAT_LABEL_FILE;
    bool has_values = formats[config->format].traits & DATA_FORMAT_VALUES;

    if (config->path_count < 1 || (has_labels && !config->labels_path))
        return error_set(error, -EINVAL, "a data set of format %s needs %s",
                         dataset_format_to_string(config->format),
                         has_labels ? "a file of samples and a file of labels"
                                    : "at least one file");
    if (config->target == DATASET_TARGET_VALUE && !has_values)
        return error_set(error, -EINVAL,
                         "data of format %s have class labels, but mean squared error needs "
                         "numbers as targets: use cross_entropy, or csv, npy or generated data",
                         dataset_format_to_string(config->format));
    if (config->classes < 0)
        return error_set(error, -EINVAL, "the number of classes is %d; it cannot be negative",
                         config->classes);
    return 0;
}

static int check_reference(const struct dataset *dataset, const struct dataset *reference,
                           const struct dataset_config *config, struct error *error)
{
    char own[128], other[128];

    if (!reference)
        return 0;
    if (dataset->rank != reference->rank ||
        memcmp(dataset->shape, reference->shape, (size_t)dataset->rank * sizeof(int64_t)) != 0)
        return error_set(
            error, -EINVAL,
            "samples of %s have the shape %s, those of the training data %s; both must agree",
            config->paths[0], reader_format_shape(dataset->shape, dataset->rank, own, sizeof own),
            reader_format_shape(reference->shape, reference->rank, other, sizeof other));
    if (dataset->format != reference->format || dataset->element != reference->element)
        return error_set(error, -EINVAL,
                         "%s has another format (%s) than the training data (%s); both must agree",
                         config->paths[0], dataset_format_to_string(dataset->format),
                         dataset_format_to_string(reference->format));
    return 0;
}

int dataset_open(const struct dataset_config *config, const struct dataset *reference,
                 struct dataset **dataset, struct error *error)
{
    struct dataset *made;
    int result = check_config(config, error);

    if (result < 0)
        return result;
    made = calloc(1, sizeof *made);
    if (!made)
        return reader_out_of_memory(config->paths[0], error);
    made->format = config->format;
    made->target = config->target;
    made->target_width = 1;
    result = formats[config->format].read(config, reference, made, error);
    if (result == 0)
        result = check_reference(made, reference, config, error);
    if (result < 0) {
        dataset_close(made);
        return result;
    }
    *dataset = made;
    return 0;
}

void dataset_close(struct dataset *dataset)
{
    if (!dataset)
        return;
    for (int64_t i = 0; dataset->column_names && i < dataset->sample_elements; i++)
        free(dataset->column_names[i]);
    free(dataset->column_names);
    free(dataset->target_name);
    for (int32_t i = 0; i < dataset->class_count; i++)
        free(dataset->class_names[i]);
    free(dataset->class_names);
    dataset_vocabulary_release(&dataset->vocabulary);
    reader_unmap_all(dataset);
    free(dataset->buffer);
    free(dataset->labels);
    free(dataset->targets);
    free(dataset->samples);
    free(dataset->block_first);
    free(dataset);
}

struct dataset_view dataset_view_all(const struct dataset *dataset)
{
    return (struct dataset_view){.dataset = dataset, .count = dataset->count};
}
