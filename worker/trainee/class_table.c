/* class_table.c: see class_table.h. */
#include "worker/trainee/class_table.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SHOWN = 24, NAME_BYTES = 4 * NAME_SHOWN + 8, TAKEN_SHOWN = 3 };

/* The class's name, cut, or its number. */
static const char *name_show(char *const *names, int32_t count, int64_t class,
                             char shown[NAME_BYTES])
{
    char cut[NAME_SHOWN + 1];

    if (!names || class >= count) {
        snprintf(shown, NAME_BYTES, "%lld", (long long)class);
        return shown;
    }
    snprintf(cut, sizeof cut, "%s", names[class]);
    return text_escape_controls(cut, shown, NAME_BYTES);
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

void class_table_print(const struct metrics *metrics, char *const *names, int32_t name_count)
{
    const struct class_counts counts = metrics_counts(metrics);
    const int64_t *confusion = metrics_confusion(metrics);
    int64_t class = -1;
    int rows = 0;

    printf("%-*s %9s %9s %9s %9s  taken for\n", NAME_SHOWN, "class", "samples", "precision",
           "recall", "f1");
    while ((class = next_by_count(counts.labelled, counts.classes, -1, class)) >= 0) {
        const int64_t *row = confusion + class * counts.classes;
        char shown[NAME_BYTES];
        int64_t other = -1;

        if (rows++ == CLASS_TABLE_ROWS) {
            printf("... and further classes; --json has them all\n");
            return;
        }
        printf("%-*s %9lld %9.4f %9.4f %9.4f ", NAME_SHOWN,
               name_show(names, name_count, class, shown), (long long)counts.labelled[class],
               class_rate(&counts, CLASS_PRECISION, class),
               class_rate(&counts, CLASS_RECALL, class), class_rate(&counts, CLASS_F1, class));
        for (int k = 0;
             k < TAKEN_SHOWN && (other = next_by_count(row, counts.classes, class, other)) >= 0;
             k++)
            printf("%s %s %lld", k ? "," : "", name_show(names, name_count, other, shown),
                   (long long)row[other]);
        putchar('\n');
    }
}

void class_table_json(const struct metrics *metrics, char *const *names, int32_t name_count,
                      struct json_object *json)
{
    const struct class_counts counts = metrics_counts(metrics);
    const int64_t *confusion = metrics_confusion(metrics);
    struct json_object *list = json_object_new_array(), *matrix = json_object_new_array();

    for (int64_t c = 0; c < counts.classes; c++) {
        struct json_object *class = json_object_new_object(), *row = json_object_new_array();
        char shown[NAME_BYTES];

        json_set_string(class, "name",
                        names && c < name_count ? names[c]
                                                : name_show(names, name_count, c, shown));
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
