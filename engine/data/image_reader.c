/* image_reader.c: see image_reader.h. */
#include "engine/data/image_reader.h"

#include "base/cleanup.h"
#include "engine/data/image.h"
#include "engine/data/image_set.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct image_reader {
    const struct dataset_config *config;
    const struct dataset *reference;
    struct image_scan scan;
    struct image_set *set; /* owned */
    bool is_table;         /* its paths are shown as it has them */
    int64_t at;            /* of the next image */
    int64_t piece;         /* images of the latest piece */
};

static bool is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* By its name, else by its first bytes. */
static bool is_image(const char *path)
{
    uint8_t bytes[IMAGE_KIND_BYTES];
    AUTO_CLOSE int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t size = descriptor < 0 ? 0 : read(descriptor, bytes, sizeof bytes);

    return image_scan_is_image(path) || (size > 0 && image_is_known(bytes, (size_t)size));
}

bool image_reader_reads(const struct dataset *reference, const char *path)
{
    if (dataset_format_is_of_images(reference->format))
        return true;
    return reference->element == DATASET_UINT8 && reference->rank == 3 &&
           (reference->shape[0] == 1 || reference->shape[0] == 3) &&
           (is_folder(path) || is_image(path));
}

static int file_add(struct image_scan *scan, const char *path, struct error *error)
{
    struct stat status;

    if (stat(path, &status) < 0)
        return error_set_errno(error, -errno, "cannot look at the image %s", path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s is not a regular file", path);
    return image_scan_add(scan, path, 0, &status, error);
}

static int images_list(struct image_reader *reader, struct error *error)
{
    const char *path = reader->config->paths[0];
    int r;

    if (is_folder(path))
        r = image_scan_open_all(path, &reader->scan, error);
    else if (is_image(path))
        r = file_add(&reader->scan, path, error);
    else if ((r = image_scan_check_kind(path, error)) == 0)
        r = image_csv_scan(reader->config, &reader->scan, error);
    reader->is_table = !is_folder(path);
    if (r == 0 && reader->scan.count == 0)
        return error_set(error, -EINVAL, "%s has no image (.png, .jpg, .webp, .bmp, .tif)", path);
    return r;
}

int image_reader_open(const struct dataset_config *config, const struct dataset *reference,
                      struct image_reader **reader, struct error *error)
{
    struct image_reader *made = calloc(1, sizeof *made);
    int r;

    if (!made)
        return reader_out_of_memory(config->paths[0], error);
    made->config = config;
    made->reference = reference;
    r = images_list(made, error);
    if (r == 0)
        r = image_set_open(config, reference, &made->scan, &made->set, error);
    if (r < 0)
        image_reader_close(made);
    else
        *reader = made;
    return r;
}

/* A set of the next images, whose bytes are not decoded yet. */
static struct dataset *piece_make(const struct image_reader *reader, struct error *error)
{
    const struct dataset *reference = reader->reference;
    struct dataset *made = calloc(1, sizeof *made);

    if (!made || !(made->buffer = malloc((size_t)(reader->piece * reference->sample_elements)))) {
        free(made);
        reader_out_of_memory(reader->config->paths[0], error);
        return NULL;
    }
    made->format = reference->format;
    made->target = reference->target;
    made->classes = reference->classes;
    made->target_width = made->target_stride = reference->target_width;
    made->element = DATASET_UINT8;
    made->sample_stride = (size_t)reference->sample_elements;
    reader_set_shape(made, reference->shape, reference->rank);
    if (reader_add_block(made, made->buffer, reader->piece, error) < 0 ||
        reader_zero_labels(made, reader->piece, error) < 0) {
        dataset_close(made);
        return NULL;
    }
    return made;
}

int image_reader_next(struct image_reader *reader, int64_t most, struct dataset **dataset,
                      struct error *error)
{
    int64_t left = reader->scan.count - reader->at;
    int r;

    *dataset = NULL;
    reader->piece = left < most ? left : most;
    if (left == 0)
        return 0;
    *dataset = piece_make(reader, error);
    if (!*dataset)
        return error->code;
    r = image_set_decode(reader->set, reader->at, reader->piece, (*dataset)->buffer, error);
    if (r < 0)
        dataset_close(TAKE_POINTER(*dataset));
    reader->at += reader->piece;
    return r;
}

char *image_reader_path(const struct image_reader *reader, int64_t index)
{
    const char *path = reader->scan.files[reader->at - reader->piece + index].path;

    return reader->is_table ? strdup(path) : reader_path_join(reader->scan.folder, path);
}

void image_reader_close(struct image_reader *reader)
{
    if (!reader)
        return;
    image_set_close(reader->set);
    image_scan_release(&reader->scan);
    free(reader);
}
