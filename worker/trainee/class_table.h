/* class_table.h: how well each class is told from the others, for a person and as JSON. */
#pragma once

#include "engine/train/metrics.h"
#include "proto/json.h"

/* Prints a row for each class, the largest first: its samples, precision, recall, F1, and what it
 * is taken for. At most CLASS_TABLE_ROWS. `names` may have fewer than the classes, or be NULL. */
enum { CLASS_TABLE_ROWS = 30 };
void class_table_print(const struct metrics *metrics, char *const *names, int32_t name_count);

/* Sets "classes" [{"name", "samples", "precision", "recall", "f1"}, ...] and, of at most
 * CLASS_TABLE_MATRIX of them, "confusion": [labels][predictions]. */
enum { CLASS_TABLE_MATRIX = 1000 };
void class_table_json(const struct metrics *metrics, char *const *names, int32_t name_count,
                      struct json_object *json);
