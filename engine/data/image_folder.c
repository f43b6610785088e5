/* image_folder.c: reads a folder of images as torchvision's ImageFolder does: a subfolder for each
 * class (image_scan.h). image_set.h decodes them. */
#include "base/cleanup.h"
#include "engine/data/image_set.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <string.h>

static int classes_check(const struct dataset_config *config, const struct image_scan *scan,
                         const struct dataset *reference, struct dataset *dataset,
                         struct error *error)
{
    int32_t limit = reader_class_limit(config, reference);

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
    if (r == 0) {
        dataset->class_names = TAKE_POINTER(scan.class_names);
        dataset->class_count = scan.class_count;
        scan.class_count = 0;
    }
    image_scan_release(&scan);
    return r;
}
