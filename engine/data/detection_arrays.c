/* detection_arrays.c: what NumPy's files and folders of images hold; see detection_internal.h. */
#include "base/cleanup.h"
#include "engine/data/detection_internal.h"
#include "engine/data/image.h"
#include "engine/data/image_scan.h"
#include "engine/data/npy_format.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS_MAX = 4, CLASSES_PROBABLE = 1000, IMAGES_LOOKED_AT = 64 };

/* What people call the arrays of samples and of their labels. */
static const char *const array_names[][2] = {{"x", "y"},
                                             {"X", "y"},
                                             {"X", "Y"},
                                             {"images", "labels"},
                                             {"data", "labels"},
                                             {"data", "target"},
                                             {"data", "targets"},
                                             {"features", "labels"},
                                             {"features", "targets"},
                                             {"samples", "labels"},
                                             {"inputs", "targets"},
                                             {"arr_0", "arr_1"}};
enum { ARRAY_NAMES = sizeof array_names / sizeof *array_names };

/* ---- arrays ---- */

/* The samples are images or rows; what looks like channels behind the pixels is taken for them. */
static void shape_set(struct detection *detection, const struct npy_array *array)
{
    int first = array->rank == 3;

    detection->samples = array->extent[0];
    if (array->rank < 2 || array->rank > 4)
        return;
    detection->rank = first + array->rank - 1;
    detection->shape[0] = 1;
    for (int i = 1; i < array->rank; i++)
        detection->shape[first + i - 1] = array->extent[i];
    if (array->rank == 4 && array->extent[3] <= CHANNELS_MAX && array->extent[1] > CHANNELS_MAX)
        memcpy(detection->shape,
               (const int64_t[]){array->extent[3], array->extent[1], array->extent[2]},
               3 * sizeof(int64_t));
    if (array->rank == 3)
        detection_note(detection,
                       "samples of %lld x %lld numbers are images of one channel; sequences need "
                       "\"layout\": \"sequence\" of data.train",
                       (long long)array->extent[1], (long long)array->extent[2]);
}

/* Whole numbers are classes, one for each sample; others are values to predict. */
static int labels_look_at(struct detection *detection, const char *path, struct dataset *files,
                          struct error *error)
{
    const struct dataset_mapping *mapping;
    AUTO_FREE uint8_t *copy = NULL;
    struct npy_array array = {0};
    int64_t highest = 0;
    int r = reader_map(files, NULL, path, &mapping, error);

    if (r == 0)
        r = npy_parse(mapping->path, mapping->address, mapping->bytes, &array, error);
    if (r == 0)
        r = npy_normalise(mapping->path, &array, &copy, error);
    if (r < 0)
        return r;
    if (array.extent[0] != detection->samples)
        return error_set(error, -EINVAL,
                         "%s has %lld labels, but %s %lld samples; one of them is not what it is "
                         "called",
                         path, (long long)array.extent[0], detection->train.paths[0],
                         (long long)detection->samples);
    detection->has_values = array.elements != array.extent[0] || !npy_type_is_integer(array.type);
    for (int64_t i = 0; i < array.elements && !detection->has_values; i++) {
        int64_t label = npy_integer(&array, i);

        highest = label > highest ? label : highest;
        detection->has_values = label < 0 || label >= CLASSES_PROBABLE;
    }
    detection->class_count = detection->has_values ? 0 : (int32_t)highest + 1;
    return 0;
}

/* Sets what samples and labels hold; `labels` is taken over. */
static int arrays_look_at(struct detection *detection, const char *samples, char *labels,
                          struct error *error)
{
    struct dataset files = {0};
    const struct dataset_mapping *mapping;
    struct npy_array array = {0};
    int r;

    detection->format = DATASET_NPY;
    detection->train.labels = labels;
    r = labels ? detection_add(&detection->train, samples, error)
               : error_no_memory(error, "the names of files");
    if (r == 0)
        r = reader_map(&files, NULL, samples, &mapping, error);
    if (r == 0)
        r = npy_parse(mapping->path, mapping->address, mapping->bytes, &array, error);
    if (r == 0) {
        shape_set(detection, &array);
        r = labels_look_at(detection, labels, &files, error);
    }
    reader_unmap_all(&files);
    free(files.mappings);
    return r;
}

int detection_read_npy(const char *path, struct detection *detection, struct error *error)
{
    char *labels = NULL, *test, *test_labels;
    int r;

    for (size_t i = 0; i < ARRAY_NAMES && !labels; i++)
        labels = detection_sibling(path, array_names[i][0], array_names[i][1]);
    for (size_t i = 0; i < ARRAY_NAMES && !labels; i++) {
        AUTO_FREE char *samples = detection_sibling(path, array_names[i][1], array_names[i][0]);

        if (samples && strcmp(samples, path) != 0)
            return arrays_look_at(detection, samples, strdup(path), error);
    }
    if (!labels)
        return error_set(error, -EINVAL,
                         "%s holds an array, but none of its labels is known: call them as in "
                         "x.npy and y.npy, or images.npy and labels.npy",
                         path);
    r = arrays_look_at(detection, path, labels, error);
    test = detection_sibling(path, "train", "test");
    test_labels = detection_sibling(labels, "train", "test");
    if (r == 0 && test && test_labels) {
        r = detection_add(&detection->test, test, error);
        detection->test.labels = TAKE_POINTER(test_labels);
    }
    free(test);
    free(test_labels);
    return r;
}

/* "path:name" if the archive has this array, else NULL. */
static char *archive_member(const char *path, const char *pattern, const char *name)
{
    struct dataset files = {0};
    const struct dataset_mapping *mapping;
    struct error error = {0};
    char array[64], *member;

    snprintf(array, sizeof array, pattern, name);
    if (asprintf(&member, "%s:%s", path, array) < 0)
        return NULL;
    if (reader_map(&files, NULL, member, &mapping, &error) < 0) {
        free(member);
        member = NULL;
    }
    reader_unmap_all(&files);
    free(files.mappings);
    return member;
}

static int archive_add_test(const char *path, const char *const names[2], bool after,
                            struct detection *detection, struct error *error)
{
    const char *pattern = after ? "%s_test" : "test_%s";
    AUTO_FREE char *test = archive_member(path, pattern, names[0]);

    if (!test)
        return 0;
    detection->test.labels = archive_member(path, pattern, names[1]);
    return detection->test.labels ? detection_add(&detection->test, test, error) : 0;
}

int detection_read_archive(const char *path, struct detection *detection, struct error *error)
{
    static const char *const patterns[] = {"%s_train", "train_%s", "%s"};
    struct dataset files = {0};
    const struct dataset_mapping *mapping;
    int r;

    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++)
        for (size_t i = 0; i < ARRAY_NAMES; i++) {
            AUTO_FREE char *samples = archive_member(path, patterns[k], array_names[i][0]);
            char *labels = samples ? archive_member(path, patterns[k], array_names[i][1]) : NULL;

            if (!labels)
                continue;
            r = arrays_look_at(detection, samples, labels, error);
            return r < 0 || k == 2
                       ? r
                       : archive_add_test(path, array_names[i], k == 0, detection, error);
        }
    r = reader_map(&files, NULL, path, &mapping, error); /* the sentence names the arrays */
    reader_unmap_all(&files);
    free(files.mappings);
    if (r == 0)
        r = error_set(error, -EINVAL, "%s holds one array", path);
    error_prefix(error, "no pair of arrays is called x and y, or images and labels");
    return r;
}

/* ---- images ---- */

/* The size of the first image, and whether some of the others have another one. */
static int sizes_look_at(const struct image_scan *scan, struct detection *detection,
                         struct error *error)
{
    int64_t step = scan->count / IMAGES_LOOKED_AT + 1;
    int r = 0;

    for (int64_t i = 0; i < scan->count && r == 0; i += step) {
        struct dataset files = {0};
        const struct dataset_mapping *mapping;
        struct image image = {0};

        r = reader_map(&files, scan->folder, scan->files[i].path, &mapping, error);
        if (r == 0)
            r = image_inspect(mapping->path, mapping->address, mapping->bytes, &image, error);
        if (r == 0 && i == 0) {
            detection->rank = 3;
            detection->shape[0] = 3;
            detection->shape[1] = image.height;
            detection->shape[2] = image.width;
        }
        if (r == 0 && (detection->shape[1] != image.height || detection->shape[2] != image.width))
            detection->sizes_differ = true;
        image_release(&image);
        reader_unmap_all(&files);
        free(files.mappings);
    }
    return r;
}

int detection_read_images(const char *path, const char *test, struct detection *detection,
                          struct error *error)
{
    struct image_scan scan = {0};
    int r = image_scan_open(path, &scan, error);

    if (r == 0 && scan.class_count < 2)
        r = error_set(error, -EINVAL,
                      "%s has the images of one class alone; a second subfolder is needed", path);
    if (r == 0) {
        detection->format = DATASET_IMAGE_FOLDER;
        detection->samples = scan.count;
        detection->class_count = scan.class_count;
        r = sizes_look_at(&scan, detection, error);
    }
    image_scan_release(&scan);
    if (r == 0)
        r = detection_add(&detection->train, path, error);
    if (r == 0 && test)
        r = detection_add(&detection->test, test, error);
    return r;
}
