/* image_folder.c: reads a folder of images as torchvision's ImageFolder does: a subfolder for each
 * class (image_scan.h). All cores decode the images once, into a file of the cache (cache.h) that
 * is mapped from then on. It holds planes of bytes: [channels][height][width]. */
#include "base/cleanup.h"
#include "engine/data/cache.h"
#include "engine/data/image.h"
#include "engine/data/image_resize.h"
#include "engine/data/image_scan.h"
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

struct image_folder {
    const struct dataset_config *config;
    struct image_scan scan;
    int channels;
    int64_t height, width; /* of every sample */
    bool crops;
    char *example; /* owned: the image that determined height and width */
    struct decoder *decoders;
    uint8_t *samples; /* while images are being decoded */
    int32_t *labels;
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

static int report_size(const struct image_folder *folder, const char *path, int64_t height,
                       int64_t width, struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s has %lld x %lld pixels, but %s %lld x %lld; give all images one size with "
                     "data.train.resize or center_crop",
                     path, (long long)width, (long long)height, folder->example,
                     (long long)folder->width, (long long)folder->height);
}

/* The size of an image once it is resized. torchvision's Resize cuts the longer side's fraction
 * off. */
static void size_resized(const struct dataset_config *config, int64_t *height, int64_t *width)
{
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
static void planes_crop(const struct image_folder *folder, const uint8_t *planes, int64_t height,
                        int64_t width, uint8_t *sample)
{
    int64_t top = crop_begin(height, folder->height), left = crop_begin(width, folder->width);
    int64_t first = left < 0 ? -left : 0, rest = width - (left < 0 ? 0 : left);
    int64_t count = folder->width - first < rest ? folder->width - first : rest;

    memset(sample, 0, (size_t)(folder->channels * folder->height * folder->width));
    for (int c = 0; c < folder->channels; c++, planes += height * width)
        for (int64_t y = 0; y < folder->height; y++, sample += folder->width) {
            int64_t from = y + top;

            if (from >= 0 && from < height)
                memcpy(sample + first, planes + from * width + (left < 0 ? 0 : left),
                       (size_t)count);
        }
}

/* Writes the decoded image as planes of the wanted size. */
static int planes_write(struct image_folder *folder, struct decoder *decoder, const char *path,
                        uint8_t *sample, struct error *error)
{
    const struct image *image = &decoder->image;
    int64_t height = image->height, width = image->width;
    size_t own = (size_t)(height * width) * (size_t)folder->channels;
    uint8_t *resized;
    int r;

    size_resized(folder->config, &height, &width);
    if (!folder->crops && (height != folder->height || width != folder->width))
        return report_size(folder, path, height, width, error);
    r = planes_reserve(decoder, path, own + (size_t)(height * width) * (size_t)folder->channels,
                       error);
    if (r < 0)
        return r;
    resized = folder->crops ? decoder->planes + own : sample;
    if (height == image->height && width == image->width) {
        image_to_planes(image, folder->channels, resized);
    } else {
        image_to_planes(image, folder->channels, decoder->planes);
        r = image_resize(&decoder->resizer, decoder->planes, folder->channels, image->height,
                         image->width, resized, height, width, error);
    }
    if (r == 0 && folder->crops)
        planes_crop(folder, resized, height, width, sample);
    return r < 0 ? error_prefix(error, "%s", path) : 0;
}

static int decode_one(void *context, int thread, int64_t index, struct error *error)
{
    struct image_folder *folder = context;
    struct decoder *decoder = &folder->decoders[thread];
    const struct image_file *file = &folder->scan.files[index];
    size_t bytes = (size_t)(folder->channels * folder->height * folder->width);
    AUTO_FREE char *path = reader_path_join(folder->scan.folder, file->path);
    int r;

    if (!path)
        return reader_out_of_memory(file->path, error);
    r = file_read_whole(decoder, file, path, error);
    if (r == 0)
        r = image_decode(path, decoder->file, (size_t)file->bytes, &decoder->image, error);
    if (r == 0)
        r = planes_write(folder, decoder, path, folder->samples + (size_t)index * bytes, error);
    if (r == 0)
        folder->labels[index] = file->label;
    return r;
}

/* ---- all of them ---- */

static int decode_all(void *context, void *samples, void *targets, struct error *error)
{
    struct image_folder *folder = context;
    AUTO_FREE char *what = NULL;
    struct parallel_work work = {.count = folder->scan.count,
                                 .run = decode_one,
                                 .context = folder,
                                 .events = folder->config->events};
    int threads = parallel_threads(&work), r;

    folder->samples = samples;
    folder->labels = targets;
    folder->decoders = calloc((size_t)threads, sizeof *folder->decoders);
    if (!folder->decoders || asprintf(&what, "decoding the images in %s", folder->scan.folder) < 0)
        return reader_out_of_memory(folder->scan.folder, error);
    work.what = what;
    r = parallel_run(&work, error);
    for (int i = 0; i < threads; i++)
        decoder_release(&folder->decoders[i]);
    free(TAKE_POINTER(folder->decoders));
    return r;
}

/* Chooses the size: that of the configuration or of the training set, else that of the first
 * image. */
static int size_choose(struct image_folder *folder, const struct dataset *reference,
                       struct error *error)
{
    const struct dataset_config *config = folder->config;
    struct decoder decoder = {0};
    int r;

    folder->crops = config->image.crop_height > 0;
    folder->height = folder->crops ? config->image.crop_height : config->image.height;
    folder->width = folder->crops ? config->image.crop_width : config->image.width;
    if (folder->height)
        folder->example = strdup("data.train.resize");
    if (reference && !folder->height && reference->rank == 3) {
        folder->height = reference->shape[1];
        folder->width = reference->shape[2];
        folder->example = strdup("those of the training data");
    }
    if (folder->height)
        return folder->example ? 0 : reader_out_of_memory(config->paths[0], error);
    folder->example = reader_path_join(folder->scan.folder, folder->scan.files[0].path);
    if (!folder->example)
        return reader_out_of_memory(config->paths[0], error);
    r = file_read_whole(&decoder, &folder->scan.files[0], folder->example, error);
    if (r == 0)
        r = image_inspect(folder->example, decoder.file, (size_t)folder->scan.files[0].bytes,
                          &decoder.image, error);
    folder->height = decoder.image.height;
    folder->width = decoder.image.width;
    if (r == 0)
        size_resized(config, &folder->height, &folder->width);
    decoder_release(&decoder);
    return r;
}

static int classes_check(struct image_folder *folder, const struct dataset *reference,
                         struct dataset *dataset, struct error *error)
{
    const struct image_scan *scan = &folder->scan;
    int32_t limit = reader_class_limit(folder->config, reference);

    for (int32_t i = 0; reference && reference->class_count && i < scan->class_count; i++)
        if (i >= reference->class_count || strcmp(reference->class_names[i], scan->class_names[i]))
            return error_set(
                error, -EINVAL,
                "class %d of %s is the folder \"%s\", but \"%s\" in the training data; "
                "both need the same class folders",
                i, scan->folder, scan->class_names[i],
                i < reference->class_count ? reference->class_names[i] : "none");
    if (reference && scan->class_count < reference->class_count)
        return error_set(error, -EINVAL,
                         "%s has no folder \"%s\" as the training data have; both need the same "
                         "class folders",
                         scan->folder, reference->class_names[scan->class_count]);
    if (limit && scan->class_count > limit)
        return error_set(error, -EINVAL,
                         "%s has %d class folders, more than the %d classes; remove some or raise "
                         "the number of classes",
                         scan->folder, scan->class_count, limit);
    dataset->classes = limit ? limit : scan->class_count;
    return 0;
}

/* Sets the name of the cached set, and the digest of its sources. */
static int entry_identify(const struct image_folder *folder, struct cache_entry *entry,
                          struct error *error)
{
    char absolute[PATH_MAX];
    int64_t options[] = {IMAGES_READ_AS,
                         folder->channels,
                         folder->config->image.height,
                         folder->config->image.width,
                         folder->config->image.shorter,
                         folder->config->image.crop_height,
                         folder->config->image.crop_width};
    struct sha256 hash;

    if (!realpath(folder->scan.folder, absolute))
        return error_set_errno(error, -errno, "cannot find the folder %s", folder->scan.folder);
    sha256_begin(&hash);
    sha256_add(&hash, "image_folder", sizeof "image_folder");
    sha256_add(&hash, absolute, strlen(absolute) + 1);
    sha256_add(&hash, options, sizeof options);
    sha256_end(&hash, entry->identity);
    sha256_begin(&hash);
    image_scan_digest(&folder->scan, &hash);
    sha256_end(&hash, entry->content);
    return 0;
}

static int folder_obtain(struct image_folder *folder, struct dataset *dataset, struct error *error)
{
    AUTO_FREE char *source = NULL;
    struct cache_entry entry = {.element = DATASET_UINT8,
                                .target = DATASET_TARGET_CLASS,
                                .rank = 3,
                                .shape = {folder->channels, folder->height, folder->width},
                                .count = folder->scan.count,
                                .target_width = 1,
                                .make = decode_all,
                                .context = folder,
                                .events = folder->config->events};
    int r = entry_identify(folder, &entry, error);

    if (r < 0)
        return r;
    if (asprintf(&source, "the images in %s", folder->scan.folder) < 0)
        return reader_out_of_memory(folder->scan.folder, error);
    entry.source = source;
    return cache_obtain(&entry, dataset, error);
}

int image_folder_read(const struct dataset_config *config, const struct dataset *reference,
                      struct dataset *dataset, struct error *error)
{
    struct image_folder folder = {.config = config,
                                  .channels = config->image.channels ? config->image.channels : 3};
    AUTO_FREE char *path = reader_path_join(config->directory, config->paths[0]);
    int r;

    if (!path)
        return reader_out_of_memory(config->paths[0], error);
    if (config->path_count != 1 || (folder.channels != 1 && folder.channels != 3))
        return error_set(error, -EINVAL,
                         "a data set of format image_folder has one path, and 1 or 3 channels");
    r = image_scan_open(path, &folder.scan, error);
    if (r == 0)
        r = classes_check(&folder, reference, dataset, error);
    if (r == 0)
        r = size_choose(&folder, reference, error);
    if (r == 0)
        r = folder_obtain(&folder, dataset, error);
    if (r == 0) {
        dataset->class_names = TAKE_POINTER(folder.scan.class_names);
        dataset->class_count = folder.scan.class_count;
        folder.scan.class_count = 0;
    }
    free(folder.example);
    image_scan_release(&folder.scan);
    return r;
}
