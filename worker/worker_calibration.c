/* worker_calibration.c: see worker_calibration.h. */
#include "worker/worker_calibration.h"

#include "base/file.h"
#include "engine/train/calibration.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { CALIBRATION_BYTES_MAX = 65536, CALIBRATION_VERSION = 1 };

/* The file's path; its folder is made. False when there is no place for it. */
static bool kept_path(const struct backend_device_info *info, char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && cache[0] == '/';
    int length;

    if (!given && !(home && home[0] == '/'))
        return false;
    length = snprintf(path, PATH_MAX, "%s%s", given ? cache : home, given ? "" : "/.cache");
    if (length >= PATH_MAX - 64)
        return false;
    mkdir(path, 0700); /* it may be there; if not, writing fails and says nothing more */
    length += snprintf(path + length, (size_t)(PATH_MAX - length), "/traind");
    mkdir(path, 0700);
    snprintf(path + length, (size_t)(PATH_MAX - length), "/calibration-%s-%d.json", info->name,
             info->threads);
    for (char *c = path + length + 1; *c; c++)
        if (*c == ':')
            *c = '-';
    return true;
}

/* Whether it is this device's, as it is now, measured as this program does. */
static bool describes(struct json_object *calibration, const struct backend_device_info *info)
{
    return json_get_int(calibration, "version", 0) == CALIBRATION_VERSION &&
           strcmp(json_get_string(calibration, "model", ""), info->model) == 0 &&
           strcmp(json_get_string(calibration, "features", ""), info->features) == 0 &&
           strcmp(json_get_string(calibration, "versions", ""), info->versions) == 0 &&
           json_get_int(calibration, "threads", 0) == info->threads;
}

int worker_calibration_load(const char *path, const struct backend_device_info *info,
                            struct json_object **calibration, struct error *error)
{
    char kept[PATH_MAX];
    struct error ignored;

    *calibration = NULL;
    if (path)
        return json_parse_file(path, CALIBRATION_BYTES_MAX, calibration, error);
    if (!kept_path(info, kept) ||
        json_parse_file(kept, CALIBRATION_BYTES_MAX, calibration, &ignored) < 0)
        return 0;
    if (!describes(*calibration, info))
        json_object_put(TAKE_POINTER(*calibration));
    return 0;
}

static struct json_object *calibration_json(const struct backend_device_info *info,
                                            const struct calibration *calibration)
{
    struct json_object *json = json_object_new_object();

    json_set_int(json, "version", CALIBRATION_VERSION);
    json_set_string(json, "device", info->name);
    json_set_string(json, "model", info->model);
    json_set_string(json, "features", info->features);
    json_set_string(json, "versions", info->versions);
    json_set_int(json, "threads", info->threads);
    json_set_double(json, "flops_per_second", calibration->flops_per_second);
    json_set_double(json, "bytes_per_second", calibration->bytes_per_second);
    json_set_double(json, "kernel_seconds", calibration->kernel_seconds);
    return json;
}

int worker_calibration_measure(const struct backend *backend, struct backend_device *device,
                               bool keep, struct json_object **calibration, struct error *error)
{
    struct backend_device_info info;
    struct calibration measured;
    struct error ignored;
    char path[PATH_MAX];
    const char *text;
    size_t length;
    int r = calibration_measure(backend, device, &measured, error);

    if (r < 0)
        return r;
    backend->device_describe(device, &info);
    *calibration = calibration_json(&info, &measured);
    text = json_text(*calibration, &length);
    if (keep && kept_path(&info, path))
        file_replace(AT_FDCWD, path, text, length, 0644, 0, &ignored);
    return 0;
}
