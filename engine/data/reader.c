/* reader.c: see reader.h: the functions with which the readers of all formats fill a set. */
#include "engine/data/reader.h"

#include "base/alignment.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

    if (dataset->letter_first)
        return dataset->samples[0] + (size_t)dataset->letter_first[index] * dataset->sample_stride;
    while (index >= dataset->block_first[block + 1]) /* there are only a few files */
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

int reader_zero_labels(struct dataset *dataset, int64_t count, struct error *error)
{
    bool classes = dataset->target == DATASET_TARGET_CLASS;
    void *zeros = calloc((size_t)count * (size_t)dataset->target_width + 1, sizeof(float));

    if (!zeros)
        return error_no_memory(error, "the predictions of %lld samples", (long long)count);
    if (classes)
        dataset->labels = zeros;
    else
        dataset->targets = zeros;
    return 0;
}

void reader_warn(const struct dataset_config *config, const char *format, ...)
{
    const struct dataset_events *events = config->events;
    char text[ERROR_TEXT_MAX];
    va_list arguments;

    if (!events || !events->warning)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    events->warning(events->context, text);
}

const uint8_t *reader_drop_pages(const uint8_t *from, const uint8_t *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = align_up((uintptr_t)from, page), end = (uintptr_t)to / page * page;

    if (end <= first)
        return from;
    madvise((void *)first, end - first, MADV_DONTNEED);
    return (const uint8_t *)end;
}

const char *reader_text_begin(const struct dataset_mapping *mapping, struct error *error)
{
    enum { LOOKED_AT = 1 << 16 };
    const char *text = mapping->address;
    size_t length = mapping->bytes < LOOKED_AT ? mapping->bytes : LOOKED_AT;

    if (length >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0)) {
        error_set(error, -EINVAL, "%s is UTF-16; convert it to UTF-8, as iconv does",
                  mapping->path);
        return NULL;
    }
    if (!memchr(text, '\n', length) && memchr(text, '\r', length)) {
        error_set(error, -EINVAL,
                  "the lines of %s end in CR alone; convert them, as tr '\\r' '\\n' does",
                  mapping->path);
        return NULL;
    }
    while (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* joined files may have two */
        text += 3;
        length -= 3;
    }
    return text;
}
