/* dataset.c: opens and closes a set, makes its views, and copies samples into a batch. */
#include "engine/data/dataset.h"

#include "base/string_table.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME(upper, lower, ...) [DATASET_##upper] = #lower,
static const char *const format_names[] = {DATA_FORMATS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(dataset_format, enum dataset_format, format_names)

#define READER(upper, lower, traits, ...) [DATASET_##upper] = {lower##_read, traits},
static const struct {
    dataset_reader *read;
    unsigned traits; /* bits of enum data_format_trait */
} formats[] = {DATA_FORMATS(READER)};
#undef READER

bool dataset_format_has_symbols(enum dataset_format format)
{
    return formats[format].traits & DATA_FORMAT_SYMBOLS;
}

bool dataset_format_is_text(enum dataset_format format)
{
    return formats[format].traits & DATA_FORMAT_TEXT;
}

bool dataset_format_is_of_images(enum dataset_format format)
{
    return formats[format].traits & DATA_FORMAT_IMAGES;
}

#define NAME(upper, lower, ...) [DATASET_TOKENS_##upper] = #lower,
static const char *const tokens_names[] = {TOKEN_KINDS(NAME)};
#undef NAME
DEFINE_STRING_TABLE(dataset_tokens, enum dataset_tokens, tokens_names)

static const char *const header_names[] = {
    [DATASET_HEADER_AUTO] = "auto", [DATASET_HEADER_YES] = "yes", [DATASET_HEADER_NO] = "no"};
DEFINE_STRING_TABLE(dataset_header, enum dataset_header, header_names)

static const char *const decimal_names[] = {[DATASET_DECIMAL_AUTO] = "auto",
                                            [DATASET_DECIMAL_POINT] = "point",
                                            [DATASET_DECIMAL_COMMA] = "comma"};
DEFINE_STRING_TABLE(dataset_decimal, enum dataset_decimal, decimal_names)

static const char *const missing_names[] = {[DATASET_MISSING_INDICATE] = "indicate",
                                            [DATASET_MISSING_MEAN] = "mean",
                                            [DATASET_MISSING_DROP] = "drop",
                                            [DATASET_MISSING_ERROR] = "error"};
DEFINE_STRING_TABLE(dataset_missing, enum dataset_missing, missing_names)

static const char *const layout_names[] = {[DATASET_LAYOUT_AUTO] = "auto",
                                           [DATASET_LAYOUT_CHW] = "chw",
                                           [DATASET_LAYOUT_HWC] = "hwc",
                                           [DATASET_LAYOUT_SEQUENCE] = "sequence"};
DEFINE_STRING_TABLE(dataset_layout, enum dataset_layout, layout_names)

/* ---- opening ---- */

static int check_config(const struct dataset_config *config, struct error *error)
{
    bool has_labels = formats[config->format].traits & DATA_FORMAT_LABEL_FILE;
    bool has_values = formats[config->format].traits & DATA_FORMAT_VALUES;

    if (config->path_count < 1 || (has_labels && !config->labels_path && !config->unlabelled))
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
    if (!config->unlabelled && dataset->target_width != reference->target_width)
        return error_set(
            error, -EINVAL, "%s has %d %s for each sample, the training data %d; both must agree",
            config->labels_path ? config->labels_path : config->paths[0], dataset->target_width,
            dataset->target == DATASET_TARGET_CLASS ? "labels" : "values to predict",
            reference->target_width);
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
    made->plain_targets = config->plain_targets;
    made->target_width = 1;
    result = formats[config->format].read(config, reference, made, error);
    if (!made->target_stride)
        made->target_stride = made->target_width;
    if (result == 0 && !config->unlabelled)
        result = plain_targets_check(
            made, config->labels_path ? config->labels_path : config->paths[0], error);
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
    for (int32_t i = 0; i < dataset->value_name_count; i++)
        free(dataset->value_names[i]);
    free(dataset->value_names);
    table_columns_free(dataset->table);
    for (int32_t i = 0; i < dataset->class_count; i++)
        free(dataset->class_names[i]);
    free(dataset->class_names);
    dataset_vocabulary_release(&dataset->vocabulary);
    reader_unmap_all(dataset);
    free(dataset->buffer);
    for (int32_t i = 0;
         dataset->series.names && i < dataset->series.features + dataset->series.values; i++)
        free(dataset->series.names[i]);
    free(dataset->series.names);
    for (int32_t i = 0; i < dataset->series.file_count; i++)
        free(dataset->series.files[i].path);
    free(dataset->series.files);
    free(dataset->letter_first);
    free(dataset->lengths);
    free(dataset->split_keys);
    free(dataset->sample_weights);
    free(dataset->labels);
    free(dataset->targets);
    free(dataset->target_units);
    free(dataset->samples);
    free(dataset->block_first);
    free(dataset);
}

struct dataset_view dataset_view_all(const struct dataset *dataset)
{
    struct dataset_view view = {.dataset = dataset, .count = dataset->count};

    if (dataset->labels_each)
        view = text_windows(dataset, 0, dataset->count);
    return view;
}
