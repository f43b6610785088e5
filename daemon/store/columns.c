/* columns.c: see columns.h. */
#include "daemon/store/columns.h"

void row_set_text(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    json_set_string(object, key, (const char *)sqlite3_column_text(row, column));
}

void row_set_int(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        json_set(object, key, NULL);
    else
        json_set_int(object, key, sqlite3_column_int64(row, column));
}

void row_set_double(struct json_object *object, const char *key, sqlite3_stmt *row, int column)
{
    if (sqlite3_column_type(row, column) == SQLITE_NULL)
        json_set(object, key, NULL);
    else
        json_set_double(object, key, sqlite3_column_double(row, column));
}

struct json_object *row_read_object(sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    struct json_object *object = NULL;

    if (text)
        json_parse(text, (size_t)sqlite3_column_bytes(row, column), &object, NULL);
    if (json_object_is_type(object, json_type_object))
        return object;
    json_object_put(object);
    return NULL;
}
