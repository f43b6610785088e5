/* image_set.c: see image_set.h. All cores decode the images once, into a file of the cache
 * (cache.h) that is mapped from then on. It holds planes of bytes: [channels][height][width]. */
#include "engine/data/image_set.h"

#include "base/cleanup.h"
#include "engine/data/cache.h"
#include "engine/data/image.h"
#include "engine/data/image_resize.h"
#include "engine/data/parallel.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28 };
/* Part of the name of a cached set: changes whenever files are read otherwise than before. 2: they
 * are turned by their EXIF orientation. */
enum { IMAGES_READ_AS = 2 };

/* The memory of one decoding thread, which it uses for one image after the other. All of it is
 * owned. */
struct decoder {
    uint8_t *file, *planes;
    size_t file_capacity, planes_capacity;
    struct image image;
    struct image_resizer resizer;
};

struct image_set {
    const struct dataset_config *config;
    const char *format; /* its name */
    const struct image_scan *scan;
    const float *values; /* [files][width]; NULL: classes */
    int32_t value_count;
    int channels;
    int64_t height, width; /* of every sample */
    bool crops;
    char *example; /* owned: the image that determined height and width */
    struct decoder *decoders;
    int64_t first;    /* while images are being decoded: the first of them */
    uint8_t *samples; /* theirs */
    void *targets;    /* theirs; NULL: they have none */
};

static void decoder_release(struct decoder *decoder)
{
    free(decoder->file);
    free(decoder->planes);
    image_release(&decoder->image);
    image_resizer_release(&decoder->resizer);
}

/* ---- one image ---- */

static int file_read_whole(struct decoder *decoder, const struct image_file *file, const char *path,
                           struct error *error)
{
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t size = (size_t)file->bytes, used = 0;
    struct stat status;

    if (descriptor < 0)
        return error_set_errno(error, -errno, "cannot open the image %s", path);
    if (file->bytes > FILE_BYTES_MAX)
        return error_set(error, -EFBIG, "the image %s has more than %d MiB; make it smaller", path,
                         FILE_BYTES_MAX >> 20);
    if (size > decoder->file_capacity) {
        uint8_t *grown = realloc(decoder->file, size);

        if (!grown)
            return reader_out_of_memory(path, error);
        decoder->file = grown;
        decoder->file_capacity = size;
    }
    while (used < size) {
        ssize_t got = read(descriptor, decoder->file + used, size - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set_errno(error, -errno, "cannot read the image %s", path);
        if (got == 0)
            break;
        used += (size_t)got;
    }
    if (used != size || fstat(descriptor, &status) < 0 || !image_file_is_unchanged(file, &status))
        return error_set(error, -ERROR_STALE_FILE,
                         "the image %s changed while it was read; leave the images alone while a "
                         "job starts",
                         path);
    return 0;
}

static int report_size(const struct image_set *set, const char *path, int64_t height, int64_t width,
                       struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s has %lld x %lld pixels, but %s %lld x %lld; give all images one size with "
                     "data.train.resize or center_crop",
                     path, (long long)width, (long long)height, set->example, (long long)set->width,
                     (long long)set->height);
}

/* The size of an image once it is resized. torchvision's Resize cuts the longer side's fraction
 * off. -EINVAL: a long thin image would become a giant. */
static int size_resized(const struct dataset_config *config, const char *path, int64_t *height,
                        int64_t *width, struct error *error)
{
    int64_t from_height = *height, from_width = *width;
    int64_t shorter = *height < *width ? *height : *width, to = config->image.shorter;

    if (config->image.height) {
        *height = config->image.height;
        *width = config->image.width;
    } else if (to && *width <= *height) {
        *height = (int64_t)((double)(to * *height) / (double)shorter);
        *width = to;
    } else if (to) {
        *width = (int64_t)((double)(to * *width) / (double)shorter);
        *height = to;
    }
    if (*height * *width <= IMAGE_PIXELS_MAX)
        return 0;
    return error_set(error, -EINVAL,
                     "%s has %lld x %lld pixels, of which resize_shorter would make %lld x %lld; "
                     "images may have %d in all: cut or remove it",
                     path, (long long)from_width, (long long)from_height, (long long)*width,
                     (long long)*height, IMAGE_PIXELS_MAX);
}

/* Makes room for two images: as decoded and as resized. */
static int planes_reserve(struct decoder *decoder, const char *path, size_t bytes,
                          struct error *error)
{
    uint8_t *grown;

    if (bytes <= decoder->planes_capacity)
        return 0;
    grown = realloc(decoder->planes, bytes);
    if (!grown)
        return reader_out_of_memory(path, error);
    decoder->planes = grown;
    decoder->planes_capacity = bytes;
    return 0;
}

/* The first row or column that is kept, below 0 where there is a frame. torchvision rounds halves
 * to even, and a frame that is not even has its larger part behind. */
static int64_t crop_begin(int64_t length, int64_t kept)
{
    return length >= kept ? llrint((double)(length - kept) / 2) : -((kept - length) / 2);
}

/* Copies the middle of the planes, or puts them into the middle of black ones. */
static void planes_crop(const struct image_set *set, const uint8_t *planes, int64_t height,
                        int64_t width, uint8_t *sample)
{
    int64_t top = crop_begin(height, set->height), left = crop_begin(width, set->width);
    int64_t first = left < 0 ? -left : 0, rest = width - (left < 0 ? 0 : left);
    int64_t count = set->width - first < rest ? set->width - first : rest;

    memset(sample, 0, (size_t)(set->channels * set->height * set->width));
    for (int c = 0; c < set->channels; c++, planes += height * width)
        for (int64_t y = 0; y < set->height; y++, sample += set->width) {
            int64_t from = y + top;

            if (from >= 0 && from < height)
                memcpy(sample + first, planes + from * width + (left < 0 ? 0 : left),
                       (size_t)count);
        }
}

/* Writes the decoded image as planes of the wanted size. */
static int planes_write(struct image_set *set, struct decoder *decoder, const char *path,
                        uint8_t *sample, struct error *error)
{
    const struct image *image = &decoder->image;
    int64_t height = image->height, width = image->width;
    size_t own = (size_t)(height * width) * (size_t)set->channels;
    uint8_t *resized;
    int r = size_resized(set->config, path, &height, &width, error);

    if (r < 0)
        return r;
    if (!set->crops && (height != set->height || width != set->width))
        return report_size(set, path, height, width, error);
    r = planes_reserve(decoder, path, own + (size_t)(height * width) * (size_t)set->channels,
                       error);
    if (r < 0)
        return r;
    resized = set->crops ? decoder->planes + own : sample;
    if (height == image->height && width == image->width) {
        image_to_planes(image, set->channels, resized);
    } else {
        image_to_planes(image, set->channels, decoder->planes);
        r = image_resize(&decoder->resizer, decoder->planes, set->channels, image->height,
                         image->width, resized, height, width, error);
    }
    if (r == 0 && set->crops)
        planes_crop(set, resized, height, width, sample);
    return r < 0 ? error_prefix(error, "%s", path) : 0;
}

static int decode_one(void *context, int thread, int64_t index, struct error *error)
{
    struct image_set *set = context;
    struct decoder *decoder = &set->decoders[thread];
    const struct image_file *file = &set->scan->files[set->first + index];
    size_t bytes = (size_t)(set->channels * set->height * set->width);
    AUTO_FREE char *path = reader_path_join(set->scan->folder, file->path);
    int r;

    if (!path)
        return reader_out_of_memory(file->path, error);
    r = file_read_whole(decoder, file, path, error);
    if (r == 0)
        r = image_decode(path, decoder->file, (size_t)file->bytes, &decoder->image, error);
    if (r == 0)
        r = planes_write(set, decoder, path, set->samples + (size_t)index * bytes, error);
    if (r < 0 || !set->targets)
        return r;
    if (set->values)
        memcpy((float *)set->targets + index * set->value_count,
               set->values + index * set->value_count, (size_t)set->value_count * sizeof(float));
    else
        ((int32_t *)set->targets)[index] = file->label;
    return 0;
}

/* ---- all of them ---- */

/* Decodes the images into set->samples and targets; `what`, for the progress, may be NULL. */
static int decode(struct image_set *set, int64_t count, const char *what, struct error *error)
{
    struct parallel_work work = {.count = count,
                                 .run = decode_one,
                                 .context = set,
                                 .what = what,
                                 .events = what ? set->config->events : NULL};
    int threads = parallel_threads(&work), r;

    set->decoders = calloc((size_t)threads, sizeof *set->decoders);
    if (!set->decoders)
        return reader_out_of_memory(set->config->paths[0], error);
    r = parallel_run(&work, error);
    for (int i = 0; i < threads; i++)
        decoder_release(&set->decoders[i]);
    free(TAKE_POINTER(set->decoders));
    return r;
}

static int decode_all(void *context, void *samples, void *targets, struct error *error)
{
    struct image_set *set = context;
    AUTO_FREE char *what = NULL;

    set->samples = samples;
    set->targets = targets;
    if (asprintf(&what, "decoding the images in %s", set->scan->folder) < 0)
        return reader_out_of_memory(set->scan->folder, error);
    return decode(set, set->scan->count, what, error);
}

/* Chooses the size: that of the configuration or of the training set, else that of the first
 * image. */
static int size_choose(struct image_set *set, const struct dataset *reference, struct error *error)
{
    const struct dataset_config *config = set->config;
    struct decoder decoder = {0};
    int r;

    set->crops = config->image.crop_height > 0;
    set->height = set->crops ? config->image.crop_height : config->image.height;
    set->width = set->crops ? config->image.crop_width : config->image.width;
    if (set->height)
        set->example = strdup("data.train.resize");
    if (reference && !set->height && reference->rank == 3) {
        set->height = reference->shape[1];
        set->width = reference->shape[2];
        set->example = strdup("those of the training data");
    }
    if (set->height)
        return set->example ? 0 : reader_out_of_memory(config->paths[0], error);
    set->example = reader_path_join(set->scan->folder, set->scan->files[0].path);
    if (!set->example)
        return reader_out_of_memory(config->paths[0], error);
    r = file_read_whole(&decoder, &set->scan->files[0], set->example, error);
    if (r == 0)
        r = image_inspect(set->example, decoder.file, (size_t)set->scan->files[0].bytes,
                          &decoder.image, error);
    set->height = decoder.image.height;
    set->width = decoder.image.width;
    if (r == 0)
        r = size_resized(config, set->example, &set->height, &set->width, error);
    decoder_release(&decoder);
    return r;
}

static int channels_choose(struct image_set *set, const struct dataset *reference,
                           struct error *error)
{
    int channels = set->config->image.channels;

    if (reference && reference->rank == 3) /* its own, if it is of another format */
        channels = (int)reference->shape[0];
    set->channels = channels ? channels : 3;
    return set->channels == 1 || set->channels == 3
               ? 0
               : error_set(error, -EINVAL, "a data set of images has 1 or 3 channels");
}

int image_set_open(const struct dataset_config *config, const struct dataset *reference,
                   const struct image_scan *scan, struct image_set **set, struct error *error)
{
    struct image_set *made = calloc(1, sizeof *made);
    int r;

    if (!made)
        return reader_out_of_memory(config->paths[0], error);
    made->config = config;
    made->scan = scan;
    r = channels_choose(made, reference, error);
    if (r == 0)
        r = size_choose(made, reference, error);
    if (r < 0)
        image_set_close(made);
    else
        *set = made;
    return r;
}

int image_set_decode(struct image_set *set, int64_t first, int64_t count, uint8_t *samples,
                     struct error *error)
{
    set->first = first;
    set->samples = samples;
    return decode(set, count, NULL, error);
}

void image_set_close(struct image_set *set)
{
    if (set)
        free(set->example);
    free(set);
}

/* Sets the name of the cached set, and the digest of its sources. */
static int entry_identify(const struct image_set *set, const struct dataset *dataset,
                          struct cache_entry *entry, struct error *error)
{
    char absolute[PATH_MAX];
    int64_t options[] = {IMAGES_READ_AS,
                         set->channels,
                         set->config->image.height,
                         set->config->image.width,
                         set->config->image.shorter,
                         set->config->image.crop_height,
                         set->config->image.crop_width,
                         set->value_count};
    struct sha256 hash;

    if (!realpath(set->scan->folder, absolute))
        return error_set_errno(error, -errno, "cannot find the folder %s", set->scan->folder);
    sha256_begin(&hash);
    sha256_add(&hash, set->format, strlen(set->format) + 1);
    for (int i = 0; i < set->config->path_count; i++)
        sha256_add(&hash, set->config->paths[i], strlen(set->config->paths[i]) + 1);
    if (set->config->csv.label_column)
        sha256_add(&hash, set->config->csv.label_column, strlen(set->config->csv.label_column) + 1);
    for (int i = 0; i < set->config->series.target_count; i++)
        sha256_add(&hash, set->config->series.targets[i],
                   strlen(set->config->series.targets[i]) + 1);
    for (int32_t i = 0; i < dataset->value_name_count; i++)
        sha256_add(&hash, dataset->value_names[i], strlen(dataset->value_names[i]) + 1);
    sha256_add(&hash, absolute, strlen(absolute) + 1);
    sha256_add(&hash, options, sizeof options);
    sha256_end(&hash, entry->identity);
    sha256_begin(&hash);
    image_scan_digest(set->scan, &hash);
    if (set->values)
        sha256_add(&hash, set->values,
                   (size_t)(set->scan->count * set->value_count) * sizeof *set->values);
    sha256_end(&hash, entry->content);
    return 0;
}

static int set_obtain(struct image_set *set, struct dataset *dataset, struct error *error)
{
    AUTO_FREE char *source = NULL;
    struct cache_entry entry = {.element = DATASET_UINT8,
                                .target = dataset->target,
                                .rank = 3,
                                .shape = {set->channels, set->height, set->width},
                                .count = set->scan->count,
                                .target_width = set->values ? set->value_count : 1,
                                .make = decode_all,
                                .context = set,
                                .events = set->config->events};
    int r = entry_identify(set, dataset, &entry, error);

    if (r < 0)
        return r;
    if (asprintf(&source, "the images in %s", set->scan->folder) < 0)
        return reader_out_of_memory(set->scan->folder, error);
    entry.source = source;
    return cache_obtain(&entry, dataset, error);
}

int image_set_read(const char *format, const struct dataset_config *config,
                   const struct dataset *reference, const struct image_scan *scan,
                   const float *values, int32_t width, struct dataset *dataset, struct error *error)
{
    struct image_set set = {
        .config = config, .format = format, .scan = scan, .values = values, .value_count = width};
    int r = channels_choose(&set, reference, error);

    if (r == 0)
        r = size_choose(&set, reference, error);
    if (r == 0)
        r = set_obtain(&set, dataset, error);
    free(set.example);
    return r;
}
