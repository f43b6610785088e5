/* json.c: members of objects, set and read; see json.h. */
#include "proto/json.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void json_set(struct json_object *parent, const char *key, struct json_object *value)
{
    if (json_object_object_add(parent, key, value) < 0)
        memory_exhausted(0);
}

/* json_set() of a value that json-c has just made; NULL: there was no memory for it. */
static void set_new(struct json_object *parent, const char *key, struct json_object *value)
{
    if (!value)
        memory_exhausted(0);
    json_set(parent, key, value);
}

void json_set_string(struct json_object *parent, const char *key, const char *value)
{
    if (value)
        set_new(parent, key, json_object_new_string(value));
    else
        json_set(parent, key, NULL);
}

void json_set_int(struct json_object *parent, const char *key, int64_t value)
{
    set_new(parent, key, json_object_new_int64(value));
}

void json_set_double(struct json_object *parent, const char *key, double value)
{
    json_set(parent, key, json_new_double(value));
}

void json_set_bool(struct json_object *parent, const char *key, bool value)
{
    set_new(parent, key, json_object_new_boolean(value));
}

struct json_object *json_get(struct json_object *parent, const char *key)
{
    struct json_object *value = NULL;

    if (json_object_is_type(parent, json_type_object))
        json_object_object_get_ex(parent, key, &value);
    return value;
}

const char *json_get_string(struct json_object *parent, const char *key, const char *absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : absent;
}

int64_t json_get_int(struct json_object *parent, const char *key, int64_t absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : absent;
}

double json_get_double(struct json_object *parent, const char *key, double absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int)
               ? json_object_get_double(value)
               : absent;
}

bool json_get_bool(struct json_object *parent, const char *key, bool absent)
{
    struct json_object *value = json_get(parent, key);

    return json_object_is_type(value, json_type_boolean) ? json_object_get_boolean(value) : absent;
}

void json_flatten(struct json_object *object, const char *prefix, struct json_object *to)
{
    enum { PATH_BYTES = 512 };

    if (!json_object_is_type(object, json_type_object))
        return;
    json_object_object_foreach (object, key, value) {
        char path[PATH_BYTES];

        snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (json_object_is_type(value, json_type_object))
            json_flatten(value, path, to);
        else if (value)
            json_set(to, path, json_object_get(value));
    }
}

int json_check_text(const char *text, size_t length, struct error *error)
{
    size_t good = text_utf8_prefix(text, length);
    const char *quote = memrchr(text, '"', good);
    char wrong[64], shown[4 * sizeof wrong];

    if (good == length)
        return 0;
    quote = quote ? quote + 1 : text;
    snprintf(wrong, sizeof wrong, "%.*s", (int)strcspn(quote, "\""), quote);
    return error_set(
        error, -EILSEQ,
        "\"%s\" is no UTF-8, which all texts are; write it so, or give the file another "
        "name or a link",
        text_escape_controls(wrong, shown, sizeof shown));
}
