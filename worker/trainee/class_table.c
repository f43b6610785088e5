/* class_table.c: see class_table.h. */
#include "worker/trainee/class_table.h"

#include "base/text.h"
#include "engine/data/description.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 24, NAME_BYTES = 4 * NAME_SHOWN + 8, TAKEN_SHOWN = 3 };

/* Prints a name, cut, as the first column of a row. */
static void name_print(const char *name)
{
    char shown[NAME_BYTES];
    size_t width = text_fit(name, NAME_SHOWN, shown, sizeof shown);

    printf("%s%*s", shown, (int)(NAME_SHOWN - width), "");
}

/* The class that comes next to `before` by a count; of equal counts, that with the smaller number
 * comes first. `before` -1: the first. -1: there is none with a count. */
static int64_t next_by_count(const int64_t *counts, int64_t classes, int64_t skipped,
                             int64_t before)
{
    int64_t found = -1;

    for (int64_t c = 0; c < classes; c++) {
        bool behind =
            before < 0 || counts[c] < counts[before] || (counts[c] == counts[before] && c > before);

        if (c != skipped && behind && counts[c] > 0 && (found < 0 || counts[c] > counts[found]))
            found = c;
    }
    return found;
}

void class_table_print(const struct metrics *metrics, const struct dataset *set)
{
    const struct class_counts counts = metrics_counts(metrics);
    const int64_t *confusion = metrics_confusion(metrics);
    int64_t class = -1;
    int rows = 0;

    printf("%-*s %9s %9s %9s %9s  taken for\n", NAME_SHOWN, "class", "samples", "precision",
           "recall", "f1");
    while ((class = next_by_count(counts.labelled, counts.classes, -1, class)) >= 0) {
        const int64_t *row = confusion + class * counts.classes;
        char shown[NAME_BYTES], made[DATASET_CLASS_BYTES];
        int64_t other = -1;

        if (rows++ == CLASS_TABLE_ROWS) {
            printf("... and further classes; --json has them all\n");
            return;
        }
        name_print(dataset_class_name(set, class, made));
        printf(" %9lld %9.4f %9.4f %9.4f ", (long long)counts.labelled[class],
               class_rate(&counts, CLASS_PRECISION, class),
               class_rate(&counts, CLASS_RECALL, class), class_rate(&counts, CLASS_F1, class));
        for (int k = 0;
             k < TAKEN_SHOWN && (other = next_by_count(row, counts.classes, class, other)) >= 0;
             k++) {
            text_fit(dataset_class_name(set, other, made), NAME_SHOWN, shown, sizeof shown);
            printf("%s %s %lld", k ? "," : "", shown, (long long)row[other]);
        }
        putchar('\n');
    }
}

void class_table_json(const struct metrics *metrics, const struct dataset *set,
                      struct json_object *json)
{
    const struct class_counts counts = metrics_counts(metrics);
    const int64_t *confusion = metrics_confusion(metrics);
    struct json_object *list = json_object_new_array(), *matrix = json_object_new_array();

    for (int64_t c = 0; c < counts.classes; c++) {
        struct json_object *class = json_object_new_object(), *row = json_object_new_array();
        char made[DATASET_CLASS_BYTES];

        json_set_string(class, "name", dataset_class_name(set, c, made));
        json_set_int(class, "samples", counts.labelled[c]);
        json_set_double(class, "precision", class_rate(&counts, CLASS_PRECISION, c));
        json_set_double(class, "recall", class_rate(&counts, CLASS_RECALL, c));
        json_set_double(class, "f1", class_rate(&counts, CLASS_F1, c));
        json_object_array_add(list, class);
        for (int64_t k = 0; k < counts.classes && counts.classes <= CLASS_TABLE_MATRIX; k++)
            json_object_array_add(row, json_object_new_int64(confusion[c * counts.classes + k]));
        json_object_array_add(matrix, row);
    }
    json_set(json, "classes", list);
    if (counts.classes <= CLASS_TABLE_MATRIX)
        json_set(json, "confusion", matrix);
    else
        json_object_put(matrix);
}

/* ---- several labels ---- */

/* What is measured of a label; NAN where it is not. */
struct label_row {
    const char *name;
    int64_t samples;
    double precision, recall, f1, auc, average_precision;
};

static struct label_row label_row(struct label_metrics *metrics, const struct dataset *set,
                                  bool scores, int64_t label, char shown[NAME_BYTES])
{
    const struct class_counts counts = label_metrics_counts(metrics);
    const char *name = dataset_target_name(set, (int32_t)label);

    snprintf(shown, NAME_BYTES, "%lld", (long long)label);
    return (struct label_row){.name = name ? name : shown,
                              .samples = counts.labelled[label],
                              .precision = class_rate(&counts, CLASS_PRECISION, label),
                              .recall = class_rate(&counts, CLASS_RECALL, label),
                              .f1 = class_rate(&counts, CLASS_F1, label),
                              .auc = scores ? label_metrics_auc(metrics, label) : (double)NAN,
                              .average_precision =
                                  scores ? label_metrics_average_precision(metrics, label)
                                         : (double)NAN};
}

void label_table_print(struct label_metrics *metrics, const struct dataset *set, bool scores)
{
    int64_t count = label_metrics_counts(metrics).classes;

    printf("%-*s %9s %9s %9s %9s%s\n", NAME_SHOWN, "label", "samples", "precision", "recall", "f1",
           scores ? "       auc  avg. precision" : "");
    for (int64_t k = 0; k < count; k++) {
        char number[NAME_BYTES];
        struct label_row row = label_row(metrics, set, scores, k, number);

        if (k == CLASS_TABLE_ROWS) {
            printf("... and further labels; --json has them all\n");
            return;
        }
        name_print(row.name);
        printf(" %9lld %9.4f %9.4f %9.4f", (long long)row.samples, row.precision, row.recall,
               row.f1);
        if (scores)
            printf(" %9.4f %15.4f", row.auc, row.average_precision);
        putchar('\n');
    }
}

void label_table_json(struct label_metrics *metrics, const struct dataset *set, bool scores,
                      struct json_object *json)
{
    struct json_object *list = json_object_new_array();

    for (int64_t k = 0; k < label_metrics_counts(metrics).classes; k++) {
        struct json_object *label = json_object_new_object();
        char number[NAME_BYTES];
        struct label_row row = label_row(metrics, set, scores, k, number);

        json_set_string(label, "name", row.name);
        json_set_int(label, "samples", row.samples);
        json_set_double(label, "precision", row.precision);
        json_set_double(label, "recall", row.recall);
        json_set_double(label, "f1", row.f1);
        if (!isnan(row.auc))
            json_set_double(label, "auc", row.auc);
        if (!isnan(row.average_precision))
            json_set_double(label, "average_precision", row.average_precision);
        json_object_array_add(list, label);
    }
    json_set(json, "labels", list);
}

/* ---- several values ---- */

/* How many rows there are: those of a time series have no names, and one value is all. */
static int64_t value_rows(const struct metrics *metrics, const struct dataset *set)
{
    int64_t count = metrics_value_count(metrics);

    return count > 1 && dataset_target_name(set, (int32_t)count - 1) ? count : 0;
}

void value_table_print(const struct metrics *metrics, const struct dataset *set)
{
    int64_t count = value_rows(metrics, set);

    if (count)
        printf("%-*s %12s %12s %9s\n", NAME_SHOWN, "value", "rmse", "mae", "r2");
    for (int64_t i = 0; i < count; i++) {
        if (i == CLASS_TABLE_ROWS) {
            printf("... and further values; --json has them all\n");
            return;
        }
        name_print(dataset_target_name(set, (int32_t)i));
        printf(" %12.6g %12.6g %9.4f\n", metrics_value_of(metrics, i, METRIC_RMSE),
               metrics_value_of(metrics, i, METRIC_MAE), metrics_value_of(metrics, i, METRIC_R2));
    }
}

void value_table_json(const struct metrics *metrics, const struct dataset *set,
                      struct json_object *json)
{
    static const enum metric_kind kinds[] = {METRIC_MSE, METRIC_RMSE, METRIC_MAE, METRIC_R2};
    static const char *const names[] = {"mse", "rmse", "mae", "r2"};
    int64_t count = value_rows(metrics, set);
    struct json_object *list = count ? json_object_new_array() : NULL;

    for (int64_t i = 0; i < count; i++) {
        struct json_object *value = json_object_new_object();

        json_set_string(value, "name", dataset_target_name(set, (int32_t)i));
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            double measured = metrics_value_of(metrics, i, kinds[k]);

            if (isfinite(measured))
                json_set_double(value, names[k], measured);
        }
        json_object_array_add(list, value);
    }
    if (list)
        json_set(json, "values", list);
}
