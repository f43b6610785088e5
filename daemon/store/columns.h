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
/* Adds a metric to members `metrics` and `nonfinite` of a Job or a Checkpoint: its value to the
 * former, an object, or its name to the latter, an array that is made then. */
void row_add_metric(struct json_object *object, const char *name, double value);
/* Parses a text column as a JSON object, which the caller owns. NULL: the column is null or
 * damaged. */
struct json_object *row_read_object(const struct statement *row, int column);
/* Parses a text column as JSON, which the caller owns; a damaged row is an error. -EINVAL with a
 * sentence; -ENOMEM. */
int row_parse_object(const struct statement *row, int column, struct json_object **object,
                     struct error *error);
