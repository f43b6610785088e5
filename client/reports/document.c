/* document.c: see document.h. */
#include "client/reports/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The formatted text as a JSON string of any length. */
static struct json_object *text_new(const char *format, va_list arguments)
{
    AUTO_FREE char *text = NULL;

    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    return json_object_new_string(text ? text : "");
}

static struct json_object *block_add(struct json_object *document, const char *kind)
{
    struct json_object *block = json_object_new_object();

    json_set_string(block, "kind", kind);
    json_object_array_add(json_get(document, "blocks"), block);
    return block;
}

struct json_object *document_new(const char *title)
{
    struct json_object *document = json_object_new_object();

    json_set_string(document, "title", title);
    json_set(document, "blocks", json_object_new_array());
    return document;
}

void document_heading(struct json_object *document, int level, const char *format, ...)
{
    struct json_object *block = block_add(document, "heading");
    va_list arguments;

    json_set_int(block, "level", level);
    va_start(arguments, format);
    json_set(block, "text", text_new(format, arguments));
    va_end(arguments);
}

void document_text(struct json_object *document, const char *format, ...)
{
    struct json_object *block = block_add(document, "text");
    va_list arguments;

    va_start(arguments, format);
    json_set(block, "text", text_new(format, arguments));
    va_end(arguments);
}

void document_table_column(struct json_object *table, const char *title, bool number)
{
    struct json_object *column = json_object_new_object();

    json_set_string(column, "title", title);
    json_set_bool(column, "number", number);
    json_object_array_add(json_get(table, "columns"), column);
}

struct json_object *document_table(struct json_object *document, const char *const *titles,
                                   size_t count)
{
    struct json_object *table = block_add(document, "table");

    json_set(table, "columns", json_object_new_array());
    json_set(table, "rows", json_object_new_array());
    for (size_t i = 0; i < count; i++)
        document_table_column(table, titles[i] + (*titles[i] == '#'), *titles[i] == '#');
    return table;
}

struct json_object *document_row(struct json_object *table)
{
    struct json_object *row = json_object_new_array();

    json_object_array_add(json_get(table, "rows"), row);
    return row;
}

void document_cell(struct json_object *row, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    json_object_array_add(row, text_new(format, arguments));
    va_end(arguments);
}

void document_pair(struct json_object *table, const char *name, const char *format, ...)
{
    struct json_object *text, *row;
    va_list arguments;

    va_start(arguments, format);
    text = text_new(format, arguments);
    va_end(arguments);
    if (json_object_get_string_len(text) == 0) {
        json_object_put(text);
        return;
    }
    row = document_row(table);
    json_object_array_add(row, json_object_new_string(name));
    json_object_array_add(row, text);
}

struct json_object *document_figure(struct json_object *document, const char *title,
                                    const char *x_title)
{
    struct json_object *figure = block_add(document, "figure");

    json_set_string(figure, "title", title);
    json_set_string(figure, "x", x_title);
    json_set(figure, "curves", json_object_new_array());
    return figure;
}

void document_curve(struct json_object *figure, const char *name, struct json_object *buckets)
{
    static const char *const lists[] = {"steps", "means", "minima", "maxima"};
    struct json_object *curve = json_object_new_object();

    json_set_string(curve, "name", name);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        json_set(curve, lists[i], json_object_get(json_get(buckets, lists[i])));
    json_object_array_add(json_get(figure, "curves"), curve);
}

static bool column_is_empty(struct json_object *rows, size_t column)
{
    for (size_t r = 0; r < json_object_array_length(rows); r++) {
        struct json_object *cell =
            json_object_array_get_idx(json_object_array_get_idx(rows, r), column);

        if (cell && json_object_get_string_len(cell) > 0)
            return false;
    }
    return true;
}

void document_trim(struct json_object *document)
{
    struct json_object *blocks = json_get(document, "blocks");

    for (size_t i = 0; i < json_object_array_length(blocks); i++) {
        struct json_object *table = json_object_array_get_idx(blocks, i);
        struct json_object *columns = json_get(table, "columns"), *rows = json_get(table, "rows");

        for (size_t c = columns ? json_object_array_length(columns) : 0; c-- > 0;) {
            if (!column_is_empty(rows, c))
                continue;
            json_object_array_del_idx(columns, c, 1);
            for (size_t r = 0; r < json_object_array_length(rows); r++) {
                struct json_object *row = json_object_array_get_idx(rows, r);

                if (c < json_object_array_length(row))
                    json_object_array_del_idx(row, c, 1);
            }
        }
    }
}

size_t document_count_figures(struct json_object *document)
{
    struct json_object *blocks = json_get(document, "blocks");
    size_t count = 0;

    for (size_t i = 0; i < json_object_array_length(blocks); i++)
        count += strcmp(json_get_string(json_object_array_get_idx(blocks, i), "kind", ""),
                        "figure") == 0;
    return count;
}
