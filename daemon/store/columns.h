/* columns.h: columns of a row as JSON; for store/ alone. */
#pragma once

#include "daemon/store/statement.h"
#include "proto/json.h"

/* Columns as JSON; null stays null. */
void row_set_text(struct json_object *object, const char *key, const struct statement *row,
                  int column);
void row_set_int(struct json_object *object, const char *key, const struct statement *row,
                 int column);
void row_set_double(struct json_object *object, const char *key, const struct statement *row,
                    int column);
/* A column of text as the JSON object that it holds, owned by the caller. NULL: null, or a damaged
 * row. */
struct json_object *row_read_object(const struct statement *row, int column);
/* Likewise, where a damaged row is an error. -EINVAL with a sentence; -ENOMEM. */
int row_parse_object(const struct statement *row, int column, struct json_object **object,
                     struct error *error);
