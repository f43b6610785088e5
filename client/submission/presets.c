/* presets.c: see presets.h. */
#include "client/submission/presets.h"

#include "base/file.h"
#include "base/text.h"
#include "client/connection/connection.h"
#include "client/submission/preset_data.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PRESET_BYTES_MAX = 256 * 1024,
    NAME_BYTES = 64,
    FOLDERS = 2,
    NAMES_MOST = 512,
    PARTS_MOST = 32
};

static const char *const kinds[] = {"model", "data", "training", "job"};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- names and places ---- */

static bool is_name(const char *text, size_t length)
{
    if (length == 0 || length >= NAME_BYTES || !isalnum((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("_-", text[i]))
            return false;
    return true;
}

bool presets_is_expression(const char *text)
{
    for (;; text++) {
        size_t length = strcspn(text, "+");

        if (!is_name(text, length))
            return false;
        text += length;
        if (!*text)
            return true;
    }
}

/* $XDG_…/traind/LAST, else HOME/FALLBACK/traind/LAST; NULL: no home. */
static char *user_folder(const char *variable, const char *fallback, const char *last)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *path;

    if (base && *base == '/')
        return asprintf(&path, "%s/traind/%s", base, last) < 0 ? NULL : path;
    return !home || asprintf(&path, "%s/%s/traind/%s", home, fallback, last) < 0 ? NULL : path;
}

/* "": the daemon names none, or there is no daemon. The caller frees it. */
static char *configured_folder(struct invocation *invocation)
{
    CLEANUP(varlink_reply_release) struct varlink_reply reply = {0};
    bool known = connection_try(invocation, "Limits", NULL, &reply);

    return strdup(known ? json_get_string(reply.parameters, "data_folder", "") : "");
}

char *presets_data_folder(struct invocation *invocation)
{
    const char *variable = getenv("TRAIND_DATA");
    AUTO_FREE char *named =
        variable && *variable ? strdup(variable) : configured_folder(invocation);
    AUTO_FREE char *full = named && *named ? realpath(named, NULL) : NULL;

    if (full)
        return TAKE_POINTER(full);
    return named && *named ? TAKE_POINTER(named)
                           : user_folder("XDG_DATA_HOME", ".local/share", "data");
}

/* The user's presets, and those beside the program; the caller frees it. */
static char *folder_of(int number)
{
    return number == 0 ? user_folder("XDG_CONFIG_HOME", ".config", "presets")
                       : file_beside_program("../share/traind/presets");
}

/* ---- one preset ---- */

static int preset_check(const char *path, struct json_object *preset, struct error *error)
{
    const char *kind = json_get_string(preset, "kind", "");
    struct json_object *spec = json_get(preset, "specification"), *files;
    bool known = false;

    for (int i = 0; i < KINDS; i++)
        known = known || strcmp(kinds[i], kind) == 0;
    files = json_get(preset, "files");
    if (known && json_object_is_type(spec, json_type_object) &&
        (!files || json_object_is_type(files, json_type_object)))
        return 0;
    return error_set(error, -EINVAL,
                     "%s is no preset: it needs \"kind\" (model, data, training or job) and "
                     "\"specification\", an object; \"files\" is one, too",
                     path);
}

/* -ENOENT without a sentence: there is no preset of this name. */
static int preset_read(const char *name, struct json_object **preset, struct error *error)
{
    for (int i = 0; i < FOLDERS; i++) {
        AUTO_FREE char *folder = folder_of(i), *path = NULL;
        int r;

        if (!folder || asprintf(&path, "%s/%s.json", folder, name) < 0 || access(path, F_OK) < 0)
            continue;
        r = json_parse_file(path, PRESET_BYTES_MAX, preset, error);
        return r < 0 ? r : preset_check(path, *preset, error);
    }
    return -ENOENT;
}

/* ---- all presets ---- */

static bool list_has(struct json_object *list, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(list); i++)
        if (strcmp(json_get_string(json_object_array_get_idx(list, i), "name", ""), name) == 0)
            return true;
    return false;
}

static void list_add(struct json_object *list, const char *name, const char *data)
{
    JSON_AUTO struct json_object *preset = NULL;
    struct error error = {0};
    struct json_object *entry;

    if (list_has(list, name))
        return;
    entry = json_object_new_object();
    json_object_array_add(list, entry);
    json_set_string(entry, "name", name);
    if (preset_read(name, &preset, &error) < 0) {
        json_set_string(entry, "problem", error.text);
        return;
    }
    json_set_string(entry, "kind", json_get_string(preset, "kind", NULL));
    json_set_string(entry, "about", json_get_string(preset, "about", NULL));
    if (json_get(preset, "files")) {
        json_set_bool(entry, "here", data && preset_data_is_here(preset, data));
        json_set_string(entry, "get", json_get_string(preset, "get", NULL));
    }
}

static int kind_place(struct json_object *entry)
{
    int place = 0;

    while (place < KINDS && strcmp(kinds[place], json_get_string(entry, "kind", "")) != 0)
        place++;
    return place;
}

static int entry_compare(const void *a, const void *b)
{
    struct json_object *left = *(struct json_object *const *)a;
    struct json_object *right = *(struct json_object *const *)b;
    int difference = kind_place(left) - kind_place(right);

    return difference
               ? difference
               : strcmp(json_get_string(left, "name", ""), json_get_string(right, "name", ""));
}

struct json_object *presets_list(const char *data)
{
    struct json_object *list = json_object_new_array();

    for (int i = 0; i < FOLDERS; i++) {
        AUTO_FREE char *path = folder_of(i);
        DIR *folder = path ? opendir(path) : NULL;
        struct dirent *entry;

        while (folder && (entry = readdir(folder)) && json_object_array_length(list) < NAMES_MOST) {
            size_t length = strlen(entry->d_name);

            if (length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0 ||
                !is_name(entry->d_name, length - 5))
                continue;
            entry->d_name[length - 5] = '\0';
            list_add(list, entry->d_name, data);
        }
        if (folder)
            closedir(folder);
    }
    json_object_array_sort(list, entry_compare);
    return list;
}

static int unknown(const char *name, const char *expression, struct error *error)
{
    JSON_AUTO struct json_object *list = presets_list(NULL);
    const char *names[NAMES_MOST], *near;
    size_t count = json_object_array_length(list);

    for (size_t i = 0; i < count; i++)
        names[i] = json_get_string(json_object_array_get_idx(list, i), "name", "");
    near = text_nearest(name, names, count);
    return error_set(error, -ENOENT, "cannot open %s: no such file, and no preset \"%s\"%s%s%s",
                     expression, name, near ? "; did you mean \"" : "", near ? near : "",
                     near ? "\"?" : "; `trainctl presets` lists those that there are");
}

/* ---- putting together ---- */

/* Whether both have a member that says what the object is: then the others belong to it. */
static bool is_another(struct json_object *base, struct json_object *overlay)
{
    static const char *const keys[] = {"name", "format", "train"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_get(base, keys[i]) && json_get(overlay, keys[i]))
            return true;
    return false;
}

static void merge(struct json_object *base, struct json_object *overlay)
{
    json_object_object_foreach (overlay, key, value) {
        struct json_object *old = json_get(base, key);

        if (old && json_object_is_type(old, json_type_object) &&
            json_object_is_type(value, json_type_object) && !is_another(old, value))
            merge(old, value);
        else
            json_set(base, key, json_object_get(value));
    }
}

/* A preset of an expression. */
struct part {
    const char *name;
    struct json_object *preset; /* owned */
};

/* Whether the preset has the member `key` of the section: the model's name, the data's train. */
static bool has_section(struct json_object *preset, const char *section, const char *key)
{
    return json_get(json_get(json_get(preset, "specification"), section), key);
}

/* Whether a later model or later data take the place of this part. Then nothing of it counts: how
 * long an earlier model trains and what it is measured by do not suit the later one. */
static bool is_replaced(const struct part *part, const struct part *end)
{
    const char *kind = json_get_string(part->preset, "kind", "");
    bool model = strcmp(kind, "model") == 0, data = strcmp(kind, "data") == 0;

    for (const struct part *later = part + 1; later < end; later++)
        if ((model && has_section(later->preset, "model", "name")) ||
            (data && has_section(later->preset, "data", "train")))
            return true;
    return false;
}

static int part_check_data(const struct part *part, const char *data, struct error *error)
{
    if (!json_get(part->preset, "files"))
        return 0;
    if (!data)
        return error_set(error, -ENOENT,
                         "%s needs a folder with its data: TRAIND_DATA is not set, and there is no "
                         "home folder",
                         part->name);
    return preset_data_check(part->name, part->preset, data, error);
}

/* Reads the presets of the expression, which is cut into their names. */
static int parts_read(char *names, const char *expression, struct part *parts, int *count,
                      struct error *error)
{
    char *rest = NULL;

    for (char *name = strtok_r(names, "+", &rest); name; name = strtok_r(NULL, "+", &rest)) {
        int r;

        if (*count == PARTS_MOST)
            return error_set(error, -EINVAL, "these are more than %d presets", PARTS_MOST);
        parts[*count].name = name;
        r = preset_read(name, &parts[(*count)++].preset, error);
        if (r < 0)
            return r == -ENOENT ? unknown(name, expression, error) : r;
    }
    return 0;
}

int presets_compose(const char *expression, const char *data, struct json_object **spec,
                    struct error *error)
{
    AUTO_FREE char *copy = strdup(expression);
    struct part parts[PARTS_MOST] = {0};
    int count = 0;
    int r = copy ? parts_read(copy, expression, parts, &count, error)
                 : error_no_memory(error, "the presets");

    *spec = NULL;
    if (r == 0) {
        *spec = json_object_new_object();
        json_set_string(*spec, "name", expression);
    }
    for (int i = 0; i < count && *spec; i++)
        if (!is_replaced(&parts[i], parts + count)) {
            merge(*spec, json_get(parts[i].preset, "specification"));
            r = r == 0 ? part_check_data(&parts[i], data, error) : r;
        }
    for (int i = 0; i < count; i++)
        json_object_put(parts[i].preset);
    if (*spec && data)
        *spec = preset_data_place(*spec, data);
    return r;
}
