/* columns.c: see columns.h. */
#include "daemon/store/columns.h"

#include <math.h>

void row_set_text(struct json_object *object, const char *key, const struct statement *row,
                  int column)
{
    json_set_string(object, key, statement_text(row, column));
}

void row_set_int(struct json_object *object, const char *key, const struct statement *row,
                 int column)
{
    if (statement_is_null(row, column))
        json_set(object, key, NULL);
    else
        json_set_int(object, key, statement_int(row, column));
}

void row_set_double(struct json_object *object, const char *key, const struct statement *row,
                    int column)
{
    if (statement_is_null(row, column))
        json_set(object, key, NULL);
    else
        json_set_double(object, key, statement_double(row, column));
}

void row_add_metric(struct json_object *object, const char *name, double value)
{
    struct json_object *names = json_get(object, "nonfinite");

    if (isfinite(value)) {
        json_set_double(json_get(object, "metrics"), name, value);
        return;
    }
    if (!names)
        json_set(object, "nonfinite", names = json_object_new_array());
    json_object_array_add(names, json_object_new_string(name));
}

int row_parse_object(const struct statement *row, int column, struct json_object **object,
                     struct error *error)
{
    size_t size;
    const char *text = statement_blob(row, column, &size);

    return json_parse(text, size, object, error);
}

struct json_object *row_read_object(const struct statement *row, int column)
{
    struct json_object *object = NULL;

    if (!statement_is_null(row, column))
        row_parse_object(row, column, &object, NULL);
    if (json_object_is_type(object, json_type_object))
        return object;
    json_object_put(object);
    return NULL;
}
