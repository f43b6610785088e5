/* varlink_check.c: checks JSON values against the types of an interface; see varlink.h. */
#include "base/text.h"
#include "proto/varlink_interface.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FIELD_PATH_MAX = 256 };

struct checker {
    char path[FIELD_PATH_MAX]; /* of the value that is being checked */
    struct error *error;
};

static int check_value(struct checker *checker, const struct varlink_type *type,
                       struct json_object *value);

/* Appends to the path and returns its former length; the caller cuts the path back to that
 * length. */
static size_t path_push(struct checker *checker, const char *before, const char *name,
                        const char *after)
{
    size_t length = strlen(checker->path);
    char shown[128];

    snprintf(checker->path + length, sizeof checker->path - length, "%s%s%s", length ? before : "",
             text_escape_controls(name, shown, sizeof shown), after);
    return length;
}

static const char *kind_of(struct json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return "null";
    case json_type_boolean:
        return "a boolean";
    case json_type_double:
        return "a number with a fraction";
    case json_type_int:
        return "an integer";
    case json_type_object:
        return "an object";
    case json_type_array:
        return "an array";
    case json_type_string:
        return "a string";
    }
    return "nothing";
}

static int type_fail(struct checker *checker, struct json_object *value, const char *expected)
{
    return error_set(checker->error, -EINVAL, "%s is %s; it must be %s",
                     *checker->path ? checker->path : "the value", kind_of(value), expected);
}

static int check_enum(struct checker *checker, const struct varlink_type *type,
                      struct json_object *value)
{
    char valid[512] = "", shown[128];
    size_t used = 0;
    const char *text;

    if (!json_object_is_type(value, json_type_string))
        return type_fail(checker, value, "a string");
    text = json_object_get_string(value);
    for (size_t i = 0; i < type->count; i++) {
        if (strcmp(type->names[i], text) == 0)
            return 0;
        if (used < sizeof valid)
            used += (size_t)snprintf(valid + used, sizeof valid - used, "%s%s", i ? ", " : "",
                                     type->names[i]);
    }
    return error_set(checker->error, -EINVAL, "%s is \"%s\"; it must be one of %s", checker->path,
                     text_escape_controls(text, shown, sizeof shown), valid);
}

static int check_unknown(struct checker *checker, const struct varlink_type *type, const char *key)
{
    const char *nearest = text_nearest(key, (const char *const *)type->names, type->count);

    path_push(checker, ".", key, "");
    if (nearest)
        return error_set(checker->error, -EINVAL, "%s is not a field here; did you mean %s?",
                         checker->path, nearest);
    return error_set(checker->error, -EINVAL, "%s is not a field here", checker->path);
}

static bool struct_has(const struct varlink_type *type, const char *key)
{
    for (size_t i = 0; i < type->count; i++)
        if (strcmp(type->names[i], key) == 0)
            return true;
    return false;
}

static int check_struct(struct checker *checker, const struct varlink_type *type,
                        struct json_object *value)
{
    if (!json_object_is_type(value, json_type_object))
        return type_fail(checker, value, "an object");
    json_object_object_foreach (value, key, unused) {
        (void)unused;
        if (!struct_has(type, key))
            return check_unknown(checker, type, key);
    }
    for (size_t i = 0; i < type->count; i++) {
        struct json_object *member = json_get(value, type->names[i]);
        size_t length = path_push(checker, ".", type->names[i], "");
        int r;

        if (!member && type->types[i]->nullable)
            r = 0;
        else if (!member)
            r = error_set(checker->error, -EINVAL, "%s is missing", checker->path);
        else
            r = check_value(checker, type->types[i], member);
        if (r < 0)
            return r;
        checker->path[length] = '\0';
    }
    return 0;
}

static int check_array(struct checker *checker, const struct varlink_type *type,
                       struct json_object *value)
{
    if (!json_object_is_type(value, json_type_array))
        return type_fail(checker, value, "an array");
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        char index[24];
        size_t length;
        int r;

        snprintf(index, sizeof index, "[%zu]", i);
        length = path_push(checker, "", index, "");
        r = check_value(checker, type->element, json_object_array_get_idx(value, i));
        if (r < 0)
            return r;
        checker->path[length] = '\0';
    }
    return 0;
}

static int check_map(struct checker *checker, const struct varlink_type *type,
                     struct json_object *value)
{
    if (!json_object_is_type(value, json_type_object))
        return type_fail(checker, value, "an object");
    json_object_object_foreach (value, key, member) {
        size_t length = path_push(checker, ".", key, "");
        int r = check_value(checker, type->element, member);

        if (r < 0)
            return r;
        checker->path[length] = '\0';
    }
    return 0;
}

static int check_value(struct checker *checker, const struct varlink_type *type,
                       struct json_object *value)
{
    enum json_type found = json_object_get_type(value);

    if (!value && type->nullable)
        return 0;
    switch (type->kind) {
    case VARLINK_BOOL:
        return found == json_type_boolean ? 0 : type_fail(checker, value, "true or false");
    case VARLINK_INT:
        return found == json_type_int ? 0 : type_fail(checker, value, "an integer");
    case VARLINK_FLOAT: /* JSON may write 1.0 as 1 */
        return found == json_type_double || found == json_type_int
                   ? 0
                   : type_fail(checker, value, "a number");
    case VARLINK_STRING:
        return found == json_type_string ? 0 : type_fail(checker, value, "a string");
    case VARLINK_OBJECT:
        return found == json_type_object ? 0 : type_fail(checker, value, "an object");
    case VARLINK_ENUM:
        return check_enum(checker, type, value);
    case VARLINK_STRUCT:
        return check_struct(checker, type, value);
    case VARLINK_ARRAY:
        return check_array(checker, type, value);
    case VARLINK_MAP:
        return check_map(checker, type, value);
    case VARLINK_NAMED:
        return check_value(checker, type->resolved, value);
    }
    return -EINVAL;
}

static int check_parameters(const struct varlink_type *type, struct json_object *parameters,
                            char *field, size_t field_size, struct error *error)
{
    struct checker checker = {.error = error};
    JSON_AUTO struct json_object *empty = NULL;
    int r;

    if (!parameters)
        parameters = empty = json_object_new_object();
    r = check_struct(&checker, type, parameters);
    if (field && field_size) {
        snprintf(field, field_size, "%s", r < 0 ? checker.path : "");
        text_make_utf8(field);
    }
    return r;
}

int varlink_interface_check(const struct varlink_interface *interface, const char *method,
                            enum varlink_direction direction, struct json_object *parameters,
                            char *field, size_t field_size, struct error *error)
{
    const struct varlink_member *member =
        varlink_member_find(interface, VARLINK_MEMBER_METHOD, method);
    char shown[64];

    if (field && field_size)
        *field = '\0';
    if (!member)
        return error_set(error, -ENOENT, "%s has no method %s", interface->name,
                         text_escape_controls(method, shown, sizeof shown));
    return check_parameters(direction == VARLINK_INPUT ? member->input : member->output, parameters,
                            field, field_size, error);
}

int varlink_interface_check_error(const struct varlink_interface *interface, const char *name,
                                  struct json_object *parameters, struct error *error)
{
    const struct varlink_member *member =
        varlink_member_find(interface, VARLINK_MEMBER_ERROR, name);
    char shown[64];

    if (!member)
        return error_set(error, -ENOENT, "%s has no error %s", interface->name,
                         text_escape_controls(name, shown, sizeof shown));
    return check_parameters(member->input, parameters, NULL, 0, error);
}
