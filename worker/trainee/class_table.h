/* class_table.h: how well each class is told from the others, for a person and as JSON. */
#pragma once

#include "engine/train/metrics.h"
#include "proto/json.h"

/* Prints a row for each class, the largest first: its samples, precision, recall, F1, and what it
 * is taken for. At most CLASS_TABLE_ROWS. The names are the `set`'s. */
enum { CLASS_TABLE_ROWS = 30 };
void class_table_print(const struct metrics *metrics, const struct dataset *set);

/* Prints a row for each of several labels that are 0 or 1, as they are numbered: how many samples
 * have it, precision, recall, F1, and AUC and average precision if the metrics have them. The names
 * are the `set`'s. */
void label_table_print(struct label_metrics *metrics, const struct dataset *set, bool scores);
/* Sets "labels" to [{"name", "samples", "precision", …}, ...]. */
void label_table_json(struct label_metrics *metrics, const struct dataset *set, bool scores,
                      struct json_object *json);

/* Prints a row for each of several values that have names: RMSE, MAE and R2. */
void value_table_print(const struct metrics *metrics, const struct dataset *set);
/* Sets "values" to [{"name", "mse", "rmse", "mae", "r2"}, ...]. */
void value_table_json(const struct metrics *metrics, const struct dataset *set,
                      struct json_object *json);

/* Sets "classes" [{"name", "samples", "precision", "recall", "f1"}, ...] and, of at most
 * CLASS_TABLE_MATRIX of them, "confusion": [labels][predictions]. */
enum { CLASS_TABLE_MATRIX = 1000 };
void class_table_json(const struct metrics *metrics, const struct dataset *set,
                      struct json_object *json);
