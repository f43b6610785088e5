/* image_folder.c: reads a folder of images as torchvision's ImageFolder does: a subfolder for each
 * class (image_scan.h). image_set.h decodes them. */
#include "base/cleanup.h"
#include "engine/data/image_set.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The class of the training data that a folder is called; -1: none is. */
static int32_t class_find(const struct dataset *reference, const char *name)
{
    double number;
    size_t length = strlen(name);

    for (int32_t i = 0; i < reference->class_count; i++)
        if (strcmp(reference->class_names[i], name) == 0)
            return i;
    if (reference->class_names || number_parse(name, name + length, &number) != name + length)
        return -1;
    return number >= 0 && number < reference->classes && number == floor(number) ? (int32_t)number
                                                                                 : -1;
}

/* Gives the images the classes of the training data, by the names of their folders. */
static int classes_match(const struct dataset *reference, struct image_scan *scan,
                         struct error *error)
{
    AUTO_FREE int32_t *classes = calloc((size_t)scan->class_count + 1, sizeof *classes);

    if (!classes)
        return reader_out_of_memory(scan->folder, error);
    for (int32_t i = 0; i < scan->class_count; i++) {
        classes[i] = class_find(reference, scan->class_names[i]);
        if (classes[i] < 0)
            return error_set(error, -EINVAL,
                             "the folder \"%s\" of %s is called as no class of the training data; "
                             "rename or remove it, or train on data that have it",
                             scan->class_names[i], scan->folder);
    }
    for (int64_t i = 0; i < scan->count; i++)
        scan->files[i].label = classes[scan->files[i].label];
    return 0;
}

static int classes_check(const struct dataset_config *config, struct image_scan *scan,
                         const struct dataset *reference, struct dataset *dataset,
                         struct error *error)
{
    int32_t limit = reader_class_limit(config, reference);
    int r = reference ? classes_match(reference, scan, error) : 0;

    if (r < 0)
        return r;
    if (limit && scan->class_count > limit)
        return error_set(error, -EINVAL,
                         "%s has %d class folders, more than the %d classes; remove some or raise "
                         "the number of classes",
                         scan->folder, scan->class_count, limit);
    dataset->classes = limit ? limit : scan->class_count;
    return 0;
}

/* The names of the classes: those of the folders, or of the training data. */
static int names_adopt(const struct dataset *reference, struct image_scan *scan,
                       struct dataset *dataset, struct error *error)
{
    int32_t count = reference ? reference->class_count : 0;

    if (!reference) {
        dataset->class_names = TAKE_POINTER(scan->class_names);
        dataset->class_count = scan->class_count;
        scan->class_count = 0;
        return 0;
    }
    dataset->class_names = count ? calloc((size_t)count, sizeof *dataset->class_names) : NULL;
    for (; dataset->class_names && dataset->class_count < count; dataset->class_count++) {
        char *name = strdup(reference->class_names[dataset->class_count]);

        if (!name)
            return reader_out_of_memory(scan->folder, error);
        dataset->class_names[dataset->class_count] = name;
    }
    return dataset->class_names || !count ? 0 : reader_out_of_memory(scan->folder, error);
}

int image_folder_read(const struct dataset_config *config, const struct dataset *reference,
                      struct dataset *dataset, struct error *error)
{
    AUTO_FREE char *path = reader_path_join(config->directory, config->paths[0]);
    struct image_scan scan = {0};
    int r;

    if (!path)
        return reader_out_of_memory(config->paths[0], error);
    if (config->path_count != 1)
        return error_set(error, -EINVAL, "a data set of format image_folder has one path");
    r = image_scan_open(path, &scan, error);
    if (r == 0)
        r = classes_check(config, &scan, reference, dataset, error);
    if (r == 0)
        r = image_set_read("image_folder", config, reference, &scan, NULL, 0, dataset, error);
    if (r == 0)
        r = names_adopt(reference, &scan, dataset, error);
    image_scan_release(&scan);
    return r;
}
