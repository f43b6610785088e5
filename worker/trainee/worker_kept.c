/* worker_kept.c: see worker_kept.h. */
#include "worker/trainee/worker_kept.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool worker_kept_folder(char path[PATH_MAX])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool given = cache && cache[0] == '/';
    int length;

    if (!given && !(home && home[0] == '/'))
        return false;
    length = snprintf(path, PATH_MAX, "%s%s", given ? cache : home, given ? "" : "/.cache");
    if (length >= PATH_MAX - 64)
        return false;
    mkdir(path, 0700); /* it may exist already; if it cannot be made, writing fails later */
    snprintf(path + length, (size_t)(PATH_MAX - length), "/traind");
    mkdir(path, 0700);
    return true;
}

bool worker_kept_path(const char *kind, const struct backend_device_info *info, char path[PATH_MAX])
{
    size_t length;

    if (!worker_kept_folder(path))
        return false;
    length = strlen(path);
    snprintf(path + length, PATH_MAX - length, "/%s-%s-%d.json", kind, info->name, info->threads);
    for (char *c = path + length + 1; *c; c++)
        if (*c == ':')
            *c = '-';
    return true;
}

struct json_object *worker_kept_begin(int version, const struct backend_device_info *info)
{
    struct json_object *json = json_object_new_object();

    json_set_int(json, "version", version);
    json_set_string(json, "device", info->name);
    json_set_string(json, "model", info->model);
    json_set_string(json, "features", info->features);
    json_set_string(json, "versions", info->versions);
    json_set_int(json, "threads", info->threads);
    return json;
}

bool worker_kept_describes(struct json_object *kept, int version,
                           const struct backend_device_info *info)
{
    return json_get_int(kept, "version", 0) == version &&
           strcmp(json_get_string(kept, "model", ""), info->model) == 0 &&
           strcmp(json_get_string(kept, "features", ""), info->features) == 0 &&
           strcmp(json_get_string(kept, "versions", ""), info->versions) == 0 &&
           json_get_int(kept, "threads", 0) == info->threads;
}

struct json_object *worker_kept_read(const char *kind, int version,
                                     const struct backend_device_info *info)
{
    struct json_object *kept = NULL;
    struct error ignored;
    char path[PATH_MAX];

    if (!worker_kept_path(kind, info, path) ||
        json_parse_file(path, WORKER_KEPT_BYTES_MAX, &kept, &ignored) < 0)
        return NULL;
    if (!worker_kept_describes(kept, version, info)) {
        json_object_put(kept);
        return NULL;
    }
    return kept;
}

void worker_kept_write(const char *kind, const struct backend_device_info *info,
                       struct json_object *kept, char path[PATH_MAX])
{
    struct error ignored;
    size_t length;
    const char *text = json_text(kept, &length);

    if (worker_kept_path(kind, info, path))
        file_replace(AT_FDCWD, path, text, length, 0644, 0, &ignored);
}
