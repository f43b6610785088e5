/* preset_data.c: see preset_data.h. */
#include "client/submission/preset_data.h"

#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 256 * 1024 };

static const char folder_variable[] = "$TRAIND_DATA";

static char *path_join(const char *folder, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static bool file_is_here(const char *folder, const char *name)
{
    AUTO_FREE char *path = path_join(folder, name);
    struct stat status;

    return path && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool preset_data_is_here(struct json_object *preset, const char *folder)
{
    struct json_object *files = json_get(preset, "files");

    json_object_object_foreach (files, name, digest) {
        (void)digest;
        if (!file_is_here(folder, name))
            return false;
    }
    return true;
}

static int digest_of(const char *path, char digest[SHA256_HEX_SIZE], struct error *error)
{
    AUTO_CLOSE int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    AUTO_FREE char *buffer = malloc(READ_BYTES);
    struct sha256 hash;
    ssize_t got;

    if (file < 0)
        return error_set_errno(error, -errno, "cannot open %s", path);
    if (!buffer)
        return error_no_memory(error, "reading %s", path);
    sha256_begin(&hash);
    while ((got = read(file, buffer, READ_BYTES)) != 0) {
        if (got < 0 && errno != EINTR)
            return error_set_errno(error, -errno, "cannot read %s", path);
        if (got > 0)
            sha256_add(&hash, buffer, (size_t)got);
    }
    sha256_end(&hash, digest);
    return 0;
}

static int file_check(const char *preset, const char *get, const char *folder, const char *name,
                      const char *known, struct error *error)
{
    AUTO_FREE char *path = path_join(folder, name);
    char digest[SHA256_HEX_SIZE];
    int r;

    if (!path)
        return error_no_memory(error, "a path");
    if (!file_is_here(folder, name))
        return error_set(error, -ENOENT,
                         "%s needs %s, which is not there: %s; TRAIND_DATA or the configuration's "
                         "Folder of [Data] names another folder",
                         preset, path, get);
    if (!known)
        return 0;
    r = digest_of(path, digest, error);
    if (r < 0 || strcmp(digest, known) == 0)
        return r;
    return error_set(error, -EINVAL,
                     "%s is not the file that %s means (its SHA-256 is %.12s…, not %.12s…): %s; a "
                     "file of your own is named by a specification",
                     path, preset, digest, known, get);
}

int preset_data_check(const char *name, struct json_object *preset, const char *folder,
                      struct error *error)
{
    struct json_object *files = json_get(preset, "files");
    const char *get = json_get_string(preset, "get", "get it");
    int r = 0;

    json_object_object_foreach (files, file, digest) {
        if (r == 0)
            r = file_check(name, get, folder, file,
                           json_object_is_type(digest, json_type_string)
                               ? json_object_get_string(digest)
                               : NULL,
                           error);
    }
    return r;
}

/* "$TRAIND_DATA" and "$TRAIND_DATA/…", but not "$TRAIND_DATA_OLD". */
static bool begins_with_variable(const char *text)
{
    static const size_t length = sizeof folder_variable - 1;

    return strncmp(text, folder_variable, length) == 0 &&
           (text[length] == '\0' || text[length] == '/');
}

static struct json_object *text_place(struct json_object *text, const char *folder)
{
    const char *old = json_object_get_string(text);
    AUTO_FREE char *path = NULL;

    if (!begins_with_variable(old) ||
        asprintf(&path, "%s%s", folder, old + sizeof folder_variable - 1) < 0)
        return text;
    json_object_put(text);
    return json_object_new_string(path);
}

struct json_object *preset_data_place(struct json_object *spec, const char *folder)
{
    if (json_object_is_type(spec, json_type_string))
        return text_place(spec, folder);
    if (json_object_is_type(spec, json_type_array))
        for (size_t i = 0; i < json_object_array_length(spec); i++) {
            struct json_object *element = json_object_array_get_idx(spec, i);

            json_object_array_put_idx(spec, i, preset_data_place(json_object_get(element), folder));
        }
    if (!json_object_is_type(spec, json_type_object))
        return spec;
    json_object_object_foreach (spec, key, value)
        json_set(spec, key, preset_data_place(json_object_get(value), folder));
    return spec;
}
