/* data_files.c: see data_files.h. */
#include "client/submission/data_files.h"

#include "base/cleanup.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* `key` is the whole path of the key in the specification. */
static int file_check(const char *directory, const char *path, const char *key, struct error *error)
{
    AUTO_FREE char *joined = NULL;
    char *member;

    if (asprintf(&joined, "%s%s%s", *path == '/' ? "" : directory, *path == '/' ? "" : "/", path) <
        0)
        return error_set(error, -ENOMEM, "not enough memory for the path of a file");
    member = file_archive_member(joined);
    if (member)
        member[-1] = '\0';
    if (access(joined, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
        return 0;
    return error_set(error, -ENOENT, "%s: there is no file %s", key, joined);
}

/* Checks a path or a list of paths; the daemon refuses any other value. */
static int files_check(const char *directory, struct json_object *files, const char *key,
                       struct error *error)
{
    size_t count =
        json_object_is_type(files, json_type_array) ? json_object_array_length(files) : 0;

    if (json_object_is_type(files, json_type_string))
        return file_check(directory, json_object_get_string(files), key, error);
    for (size_t i = 0; i < count; i++) {
        struct json_object *file = json_object_array_get_idx(files, i);
        int result = json_object_is_type(file, json_type_string)
                         ? file_check(directory, json_object_get_string(file), key, error)
                         : 0;

        if (result < 0)
            return result;
    }
    return 0;
}

int data_files_check(struct json_object *spec, struct error *error)
{
    static const char *const sections[] = {"train", "test"};
    static const char *const keys[] = {"path", "images", "labels", "lengths", "sample_weights"};
    const char *directory = json_get_string(spec, "directory", "");
    struct json_object *after = json_get(spec, "after"), *weights = json_get(spec, "weights");

    if (json_get_bool(spec, "hold", false) || json_get(spec, "group") ||
        (after &&
         !(json_object_is_type(after, json_type_array) && json_object_array_length(after) == 0)) ||
        access(directory, F_OK) != 0)
        return 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        struct json_object *section = json_get(json_get(spec, "data"), sections[i]);

        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            char key[64];
            int result;

            snprintf(key, sizeof key, "data.%s.%s", sections[i], keys[k]);
            result = files_check(directory, json_get(section, keys[k]), key, error);
            if (result < 0)
                return result;
        }
    }
    if (files_check(directory, json_get(json_get(spec, "model"), "onnx"), "model.onnx", error) < 0)
        return error->code;
    return files_check(directory,
                       json_object_is_type(weights, json_type_object) ? json_get(weights, "file")
                                                                      : weights,
                       "weights", error);
}
