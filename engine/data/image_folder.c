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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 1 << 28 };

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
    bool resizes;
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

static int report_size(const struct image_folder *folder, const char *path,
                       const struct image *image, struct error *error)
{
    return error_set(error, -EINVAL,
                     "%s has %lld x %lld pixels, but %s %lld x %lld; give all images one size with "
                     "data.train.resize",
                     path, (long long)image->width, (long long)image->height, folder->example,
                     (long long)folder->width, (long long)folder->height);
}

/* Writes the decoded image as planes of the wanted size. */
static int planes_write(struct image_folder *folder, struct decoder *decoder, const char *path,
                        uint8_t *sample, struct error *error)
{
    const struct image *image = &decoder->image;
    size_t bytes = (size_t)(image->width * image->height) * (size_t)folder->channels;
    int r;

    if (image->width == folder->width && image->height == folder->height) {
        image_to_planes(image, folder->channels, sample);
        return 0;
    }
    if (!folder->resizes)
        return report_size(folder, path, image, error);
    if (bytes > decoder->planes_capacity) {
        uint8_t *grown = realloc(decoder->planes, bytes);

        if (!grown)
            return reader_out_of_memory(path, error);
        decoder->planes = grown;
        decoder->planes_capacity = bytes;
    }
    image_to_planes(image, folder->channels, decoder->planes);
    r = image_resize(&decoder->resizer, decoder->planes, folder->channels, image->height,
                     image->width, sample, folder->height, folder->width, error);
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

    folder->resizes = config->image.height > 0;
    folder->height = config->image.height;
    folder->width = config->image.width;
    if (reference && !folder->resizes && reference->rank == 3) {
        folder->height = reference->shape[1];
        folder->width = reference->shape[2];
        folder->example = strdup("those of the training data");
    }
    if (folder->height)
        return folder->resizes || folder->example ? 0
                                                  : reader_out_of_memory(config->paths[0], error);
    folder->example = reader_path_join(folder->scan.folder, folder->scan.files[0].path);
    if (!folder->example)
        return reader_out_of_memory(config->paths[0], error);
    r = file_read_whole(&decoder, &folder->scan.files[0], folder->example, error);
    if (r == 0)
        r = image_inspect(folder->example, decoder.file, (size_t)folder->scan.files[0].bytes,
                          &decoder.image, error);
    folder->height = decoder.image.height;
    folder->width = decoder.image.width;
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
    int64_t options[] = {folder->channels, folder->config->image.height,
                         folder->config->image.width};
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
