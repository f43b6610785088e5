/* suggestion_images.c: specifications that would learn from a table that names images. */
#include "base/cleanup.h"
#include "engine/data/image_scan.h"
#include "worker/trainee/suggestion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the first texts of the column are names of images, as far as they are known whole. */
static bool names_images(const struct table_inspection_column *column)
{
    bool names = column->examples[0][0];

    for (int i = 0; i < TABLE_EXAMPLES && column->examples[i][0]; i++)
        names = names && strlen(column->examples[i]) + 1 < TABLE_EXAMPLE_BYTES &&
                image_scan_is_image(column->examples[i]);
    return names;
}

static int32_t find_column(const struct table_inspection *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (i != table->target && names_images(&table->columns[i]))
            return i;
    return -1;
}

/* The folder beside the table that holds the image; "": that of the table, or none is found. The
 * caller frees it. */
static char *find_folder(const char *path, const char *image)
{
    static const char *const names[] = {"", "images", "image", "img", "train", "photos", "data"};
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + 1 : 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        AUTO_FREE char *folder = NULL, *file = NULL;

        if (asprintf(&folder, "%.*s%s", length, path, names[i]) < 0 ||
            asprintf(&file, "%s%s%s", folder, *names[i] ? "/" : "", image) < 0)
            return NULL;
        if (access(file, R_OK) == 0)
            return *names[i] ? TAKE_POINTER(folder) : strdup("");
    }
    return strdup("");
}

static void column_name(struct json_object *source, const char *key,
                        const struct table_inspection *table, int32_t column)
{
    if (table->columns[column].needs_number)
        json_set_int(source, key, column);
    else
        json_set_string(source, key, table->columns[column].name);
}

/* Of several numbers one alone is predicted. */
static void targets_name(struct json_object *source, const struct table_inspection *table)
{
    struct json_object *list = json_object_new_array();
    const struct table_inspection_column *target = &table->columns[table->target];
    char number[16];

    snprintf(number, sizeof number, "%d", table->target);
    json_object_array_add(list,
                          json_object_new_string(target->needs_number ? number : target->name));
    json_set(source, "targets", list);
}

/* Adds the choices, which know the columns, to those of the table. */
static void choices_add(struct json_object *choices, struct detection *detection,
                        const struct table_inspection *table, int32_t column, const char *folder)
{
    size_t first = json_object_array_length(choices);

    suggestions_add_images(choices, detection);
    for (size_t i = first; i < json_object_array_length(choices); i++) {
        struct json_object *choice = json_object_array_get_idx(choices, i);
        struct json_object *data = json_get(json_get(choice, "specification"), "data");
        struct json_object *train = json_get(data, "train");

        column_name(train, "image_column", table, column);
        if (detection->has_values)
            targets_name(train, table);
        else
            column_name(train, "label_column", table, table->target);
        if (table->delimiter != ',')
            json_set_string(train, "delimiter", (char[]){table->delimiter, '\0'});
        if (*folder)
            json_set_string(train, "images_folder", folder);
    }
}

void suggestions_add_image_table(struct json_object *choices, struct detection *detection,
                                 const struct table_inspection *table)
{
    int32_t column = find_column(table);
    bool numeric = table->columns[table->target].numeric;
    AUTO_FREE char *folder = NULL;

    if (column < 0 || (!table->classes && !numeric))
        return;
    folder = find_folder(detection->train.paths[0], table->columns[column].examples[0]);
    if (!folder)
        return;
    detection->format = DATASET_IMAGE_CSV;
    detection->samples = table->rows;
    detection->rank = 3;
    detection->shape[0] = 3;
    detection->shape[1] = detection->shape[2] = 0;
    detection->sizes_differ = true; /* none is opened, so it is not known */
    for (int values = !table->classes; values <= numeric; values++) {
        int notes = detection->note_count;

        detection->has_values = values;
        choices_add(choices, detection, table, column, folder);
        for (; values && table->classes && detection->note_count > notes;) /* they are there */
            free(detection->notes[--detection->note_count]);
    }
    detection->has_values = false;
    detection->format = DATASET_TABLE;
}
