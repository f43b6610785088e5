/* cifar.c: CIFAR's binary version (https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version"):
 * records of one label byte (CIFAR-10) or two (CIFAR-100: coarse, fine) and 3072 bytes of image:
 * 32x32 red, then green, then blue. The images stay mapped. */
#include "engine/data/reader.h"

#include <errno.h>
#include <stdlib.h>

enum { CIFAR_IMAGE_BYTES = 3 * 32 * 32 };

static int cifar_add_file(const struct dataset_mapping *mapping, int label_bytes,
                          struct dataset *dataset, struct error *error)
{
    size_t record = (size_t)label_bytes + CIFAR_IMAGE_BYTES;
    const uint8_t *bytes = mapping->address;
    int64_t first = dataset->count;
    size_t count = mapping->bytes / record;

    if (mapping->bytes % record)
        return error_set(error, -EINVAL,
                         "%s has %zu bytes, which is no multiple of a record's %zu (label_bytes "
                         "%d): it is truncated, or of another format",
                         mapping->path, mapping->bytes, record, label_bytes);
    int result = reader_add_block(dataset, bytes + label_bytes, (int64_t)count, error);
    if (result < 0)
        return result;
    int32_t *labels =
        reallocarray(dataset->labels, (size_t)dataset->count, sizeof *dataset->labels);
    if (!labels)
        return reader_out_of_memory(mapping->path, error);
    dataset->labels = labels;
    for (size_t i = 0; i < count; i++) {
        int label = bytes[i * record + (size_t)label_bytes - 1];

        if (label >= dataset->classes)
            return error_set(error, -EINVAL,
                             "%s: label %d of record %zu (byte %zu) is not below the %d classes; "
                             "check label_bytes, or raise the number of classes",
                             mapping->path, label, i, i * record + (size_t)label_bytes - 1,
                             dataset->classes);
        labels[(size_t)first + i] = label;
    }
    return 0;
}

int cifar_binary_read(const struct dataset_config *config, const struct dataset *reference,
                      struct dataset *dataset, struct error *error)
{
    static const int64_t shape[] = {3, 32, 32};
    int label_bytes = config->cifar.label_bytes ? config->cifar.label_bytes : 1;

    if (label_bytes != 1 && label_bytes != 2)
        return error_set(error, -EINVAL,
                         "label_bytes is %d; it is 1 for CIFAR-10 and 2 for CIFAR-100",
                         label_bytes);
    dataset->classes = reader_class_limit(config, reference);
    if (dataset->classes == 0)
        dataset->classes = label_bytes == 1 ? 10 : 100;
    dataset->element = DATASET_UINT8;
    reader_set_shape(dataset, shape, 3);
    dataset->sample_stride = (size_t)label_bytes + CIFAR_IMAGE_BYTES;
    for (int i = 0; i < config->path_count; i++) {
        const struct dataset_mapping *mapping;
        int result = reader_map(dataset, config->directory, config->paths[i], &mapping, error);

        if (result == 0)
            result = cifar_add_file(mapping, label_bytes, dataset, error);
        if (result < 0)
            return result;
    }
    dataset->memory_bytes += (size_t)dataset->count * sizeof *dataset->labels;
    return 0;
}
