/* idx.c: the IDX format of MNIST (http://yann.lecun.com/exdb/mnist/, "the IDX file format"): two
 * zero bytes, a type, the number of dimensions, each dimension as a big-endian uint32, then the
 * elements. One file holds the images, one the labels; both stay mapped. */
#include "engine/data/reader.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { IDX_UNSIGNED_BYTE = 0x08 };

struct idx_file {
    const char *path;
    int rank;
    int64_t extent[255];
    int64_t elements;    /* product of all extents */
    const uint8_t *data; /* elements bytes */
};

static const char *idx_type_name(uint8_t type)
{
    switch (type) {
    case 0x08:
        return "unsigned byte";
    case 0x09:
        return "signed byte";
    case 0x0b:
        return "16-bit integer";
    case 0x0c:
        return "32-bit integer";
    case 0x0d:
        return "32-bit float";
    case 0x0e:
        return "64-bit float";
    default:
        return NULL;
    }
}

static int idx_parse_magic(const struct dataset_mapping *mapping, struct error *error)
{
    const uint8_t *bytes = mapping->address;

    if (mapping->bytes < 4 || bytes[0] != 0 || bytes[1] != 0 || !idx_type_name(bytes[2]))
        return error_set(error, -EINVAL,
                         "%s is no IDX file: it begins with the bytes %02x %02x %02x %02x instead "
                         "of 00 00, a type and the number of dimensions; check the path and the "
                         "format",
                         mapping->path, bytes[0], mapping->bytes > 1 ? bytes[1] : 0,
                         mapping->bytes > 2 ? bytes[2] : 0, mapping->bytes > 3 ? bytes[3] : 0);
    if (bytes[2] != IDX_UNSIGNED_BYTE)
        return error_set(error, -EINVAL,
                         "%s holds elements of type %s; only unsigned bytes are read: convert it",
                         mapping->path, idx_type_name(bytes[2]));
    if (bytes[3] == 0)
        return error_set(error, -EINVAL, "%s says that it has no dimensions; write it again",
                         mapping->path);
    return 0;
}

static int idx_parse(const struct dataset_mapping *mapping, struct idx_file *file,
                     struct error *error)
{
    const uint8_t *bytes = mapping->address;
    int result = idx_parse_magic(mapping, error);

    if (result < 0)
        return result;
    file->path = mapping->path;
    file->rank = bytes[3];
    size_t header = 4 + 4 * (size_t)file->rank;
    if (mapping->bytes < header)
        return error_set(error, -EINVAL,
                         "%s is truncated: %zu bytes, but the header alone takes %zu; fetch it "
                         "again",
                         file->path, mapping->bytes, header);
    file->elements = 1;
    for (int i = 0; i < file->rank; i++) {
        uint32_t extent;

        memcpy(&extent, bytes + 4 + 4 * i, 4);
        file->extent[i] = be32toh(extent);
        if (__builtin_mul_overflow(file->elements, file->extent[i], &file->elements))
            return error_set(error, -EINVAL, "%s: its dimensions are absurd; write it again",
                             file->path);
    }
    int64_t present = (int64_t)(mapping->bytes - header);
    if (file->elements == 0)
        return error_set(error, -EINVAL, "%s says that one of its dimensions is 0; write it again",
                         file->path);
    if (present != file->elements)
        return error_set(error, -EINVAL,
                         "%s is %s: its header promises %lld bytes of data, but %lld follow; fetch "
                         "it again",
                         file->path, present < file->elements ? "truncated" : "too long",
                         (long long)file->elements, (long long)present);
    file->data = bytes + header;
    return 0;
}

/* [n,h,w] holds images with one channel, [n,c,h,w] images, [n,k] rows. */
static int idx_set_shape(const struct idx_file *images, struct dataset *dataset,
                         struct error *error)
{
    int64_t shape[DATASET_RANK_MAX] = {1};

    if (images->rank < 2 || images->rank > 4)
        return error_set(error, -EINVAL,
                         "%s has %d dimension%s; images have 3 (count, height, width) or 4, rows "
                         "2%s",
                         images->path, images->rank, images->rank == 1 ? "" : "s",
                         images->rank == 1 ? ": is this the labels file?" : "");
    int first = images->rank == 3;
    for (int i = 1; i < images->rank; i++)
        shape[first + i - 1] = images->extent[i];
    reader_set_shape(dataset, shape, first + images->rank - 1);
    return 0;
}

static int idx_check_labels(const struct idx_file *labels, int32_t limit, struct dataset *dataset,
                            struct error *error)
{
    int32_t highest = 0;

    for (int64_t i = 0; i < labels->elements; i++) {
        if (limit && labels->data[i] >= limit)
            return error_set(error, -EINVAL,
                             "%s: label %d of sample %lld (byte %lld) is not below the %d classes; "
                             "correct the label or raise the number of classes",
                             labels->path, labels->data[i], (long long)i, (long long)i + 8, limit);
        if (labels->data[i] > highest)
            highest = labels->data[i];
    }
    dataset->classes = limit ? limit : highest + 1;
    return 0;
}

static int idx_read_labels(const struct dataset_config *config, const struct dataset *reference,
                           const struct idx_file *images, struct dataset *dataset,
                           struct error *error)
{
    const struct dataset_mapping *mapping;
    struct idx_file labels = {0};
    int result = reader_map(dataset, config->directory, config->labels_path, &mapping, error);

    if (result == 0)
        result = idx_parse(mapping, &labels, error);
    if (result < 0)
        return result;
    if (labels.rank != 1)
        return error_set(error, -EINVAL, "%s has %d dimensions; labels have 1%s", labels.path,
                         labels.rank, labels.rank == 3 ? ": is this the images file?" : "");
    if (labels.elements != images->extent[0])
        return error_set(error, -EINVAL,
                         "%s holds %lld images, but %s %lld labels; take the two files of one set",
                         images->path, (long long)images->extent[0], labels.path,
                         (long long)labels.elements);
    dataset->byte_labels = labels.data;
    return idx_check_labels(&labels, reader_class_limit(config, reference), dataset, error);
}

int idx_read(const struct dataset_config *config, const struct dataset *reference,
             struct dataset *dataset, struct error *error)
{
    const struct dataset_mapping *mapping;
    struct idx_file images = {0};
    int result;

    if (config->path_count != 1)
        return error_set(error, -EINVAL, "a data set of format idx has one images file, not %d",
                         config->path_count);
    result = reader_map(dataset, config->directory, config->paths[0], &mapping, error);
    if (result == 0)
        result = idx_parse(mapping, &images, error);
    if (result == 0)
        result = idx_set_shape(&images, dataset, error);
    if (result < 0)
        return result;
    dataset->element = DATASET_UINT8;
    dataset->sample_stride = (size_t)dataset->sample_elements;
    if (config->unlabelled) {
        dataset->classes = reference->classes;
        result = reader_zero_labels(dataset, images.extent[0], error);
    } else {
        result = idx_read_labels(config, reference, &images, dataset, error);
    }
    if (result == 0)
        result = reader_add_block(dataset, images.data, images.extent[0], error);
    return result;
}
