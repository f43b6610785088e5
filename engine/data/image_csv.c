/* image_csv.c: a table as text (csv_table.h) with the paths of images and what is to be predicted
 * of each: the name or number of its class, or the numbers of several columns, such as 0 and 1 for
 * each label that it may have. The images are read as those of a folder are (image_set.h). */
#include "base/cleanup.h"
#include "engine/data/csv_table.h"
#include "engine/data/image_set.h"
#include "engine/data/label_names.h"
#include "engine/data/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct image_csv {
    struct csv_table table;
    struct dataset *dataset;
    const struct dataset *reference; /* NULL: of the training set itself */
    char *folder;                    /* that paths begin in; owned */
    struct image_scan scan;
    struct label_names names;
    int32_t image_column, label_column; /* from 0; -1: none */
    int32_t *targets;                   /* columns of the values; owned */
    int32_t target_count;
    float *values; /* [files][target_count]; owned */
};

/* ---- columns ---- */

/* The first row names the columns unless it names an image: one that is there, or whose name ends
 * as theirs do. */
static bool row_is_header(void *context, const char *row, const char *end, struct csv_cursor rest)
{
    struct image_csv *reader = context;
    struct csv_table shape = reader->table;
    struct error ignored = {0};
    AUTO_FREE char *path = NULL, *name = NULL;
    struct stat status;
    int32_t column;
    const char *cell;
    size_t length;

    (void)rest;
    shape.columns = csv_cells_count(&shape, row, end);
    if (csv_column_find_or_first(&shape, "", shape.config->image.column, 0, &column, &ignored) < 0)
        return true;
    cell = csv_cell_find(&shape, row, end, column, &length);
    name = csv_cell_copy(row, cell, length);
    path = name ? reader_path_join(reader->folder, name) : NULL;
    return !path ||
           (!image_scan_is_image(path) && (stat(path, &status) < 0 || !S_ISREG(status.st_mode)));
}

/* Columns of the same names as those of the training set are where they stand; others are looked
 * for. */
static int targets_follow(struct image_csv *reader, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const struct dataset *reference = reader->reference;
    bool differ = reference && reference->value_name_count != reader->target_count;

    if (!reference || !reference->value_names || !table->names)
        return 0;
    for (int32_t i = 0; !differ && i < reader->target_count; i++)
        differ = strcmp(table->names[reader->targets[i]], reference->value_names[i]) != 0;
    if (!differ)
        return 0;
    free(reader->targets);
    reader->target_count = 0;
    reader->targets = calloc((size_t)reference->value_name_count, sizeof *reader->targets);
    if (!reader->targets)
        return reader_out_of_memory(table->path, error);
    for (int32_t i = 0; i < reference->value_name_count; i++) {
        int32_t *column = &reader->targets[reader->target_count++];
        int r = csv_column_find_named(table, "targets", reference->value_names[i], column, error);

        if (r < 0)
            return r;
        for (int32_t k = 0; k < i; k++)
            if (reader->targets[k] == *column)
                return error_set(
                    error, -EINVAL,
                    "%s: the training data have two columns named \"%s\", so it is not "
                    "known which one that of this table is; give them different names",
                    table->path, reference->value_names[i]);
    }
    return 0;
}

static int names_keep(const struct image_csv *reader, struct error *error)
{
    struct dataset *dataset = reader->dataset;

    if (!reader->table.names)
        return 0;
    dataset->value_names = calloc((size_t)reader->target_count, sizeof *dataset->value_names);
    if (!dataset->value_names)
        return reader_out_of_memory(reader->table.path, error);
    for (int32_t i = 0; i < reader->target_count; i++) {
        dataset->value_names[i] = strdup(reader->table.names[reader->targets[i]]);
        if (!dataset->value_names[i])
            return reader_out_of_memory(reader->table.path, error);
        dataset->value_name_count++;
    }
    return 0;
}

/* The columns of the values: those that the configuration names, or else all but that of the images
 * in the training set, and in others those that are called as there. */
static int targets_choose(struct image_csv *reader, struct error *error)
{
    const struct dataset_config *config = reader->table.config;
    int32_t columns = reader->table.columns;
    int r = 0;

    reader->targets =
        calloc((size_t)columns + (size_t)config->series.target_count, sizeof *reader->targets);
    if (!reader->targets)
        return reader_out_of_memory(reader->table.path, error);
    for (int i = 0; r == 0 && i < config->series.target_count; i++)
        r = csv_column_find_named(&reader->table, "targets", config->series.targets[i],
                                  &reader->targets[reader->target_count++], error);
    for (int32_t i = 0; !config->series.target_count && i < columns; i++)
        if (i != reader->image_column)
            reader->targets[reader->target_count++] = i;
    if (r == 0 && reader->target_count == 0)
        return error_set(error, -EINVAL,
                         "%s has no column of values beside that of the images; is the delimiter "
                         "'%c' right?",
                         reader->table.path, reader->table.delimiter);
    if (r == 0 && !config->series.target_count)
        r = targets_follow(reader, error);
    return r == 0 ? names_keep(reader, error) : r;
}

static int table_begin(void *context, struct error *error)
{
    struct image_csv *reader = context;
    const struct dataset_config *config = reader->table.config;
    int r = csv_column_find_or_first(&reader->table, "image_column", config->image.column,
                                     config->unlabelled ? 0 : -1, &reader->image_column, error);

    reader->label_column = -1;
    if (r < 0 || config->unlabelled)
        return r;
    if (reader->dataset->target == DATASET_TARGET_VALUE)
        return targets_choose(reader, error);
    r = csv_column_find_or_last(&reader->table, "label_column", config->csv.label_column, -1,
                                &reader->label_column, error);
    if (r == 0)
        r = csv_label_follow(&reader->table, reader->reference, &reader->label_column,
                             &reader->dataset->target_name, error);
    if (r == 0 && reader->label_column == reader->image_column)
        return error_set(error, -EINVAL,
                         "%s: column %d is to be the image and the label; the first row has %d "
                         "column%s: is the delimiter '%c' right?",
                         reader->table.path, reader->label_column + 1, reader->table.columns,
                         reader->table.columns == 1 ? "" : "s", reader->table.delimiter);
    return r;
}

/* ---- paths ---- */

/* The folder that the table lies in. */
static char *folder_of_table(const struct dataset_config *config)
{
    char *path = reader_path_join(config->directory, config->paths[0]);
    char *slash = path ? strrchr(path, '/') : NULL;

    if (path && !slash) {
        free(path);
        return strdup(".");
    }
    if (path)
        slash[slash == path] = '\0';
    return path;
}

/* The folder that paths begin in: the configured one, else that of the table. */
static char *folder_of(const struct dataset_config *config)
{
    AUTO_FREE char *of_table =
        config->image.folder_beside || !config->image.folder ? folder_of_table(config) : NULL;

    if (!config->image.folder)
        return TAKE_POINTER(of_table);
    return reader_path_join(config->image.folder_beside ? of_table : config->directory,
                            config->image.folder);
}

static char *path_join(const struct image_csv *reader, const char *name, struct stat *status,
                       int *fault)
{
    char *path = reader_path_join(reader->folder, name);

    *fault = path && stat(path, status) < 0 ? -errno : 0;
    return path;
}

/* The path of a cell, and its status. Where the folder may be another one beside the table and the
 * first image is not there, paths begin in the folder of the table. */
static char *path_find(struct image_csv *reader, const char *name, struct stat *status, int *fault)
{
    char *path = path_join(reader, name, status, fault);

    if (path && *fault && reader->scan.count == 0 && reader->table.config->image.folder_beside) {
        free(path);
        free(reader->folder);
        free(reader->scan.folder);
        reader->folder = folder_of_table(reader->table.config);
        reader->scan.folder = reader->folder ? strdup(reader->folder) : NULL;
        path = reader->scan.folder ? path_join(reader, name, status, fault) : NULL;
    }
    return path;
}

/* ---- rows ---- */

static int image_add(struct image_csv *reader, const char *row, const char *cell, size_t length,
                     int32_t label, struct error *error)
{
    AUTO_FREE char *name = csv_cell_copy(row, cell, length), *path = NULL;
    struct stat status;
    int fault;

    path = name ? path_find(reader, name, &status, &fault) : NULL;
    if (!path)
        return reader_out_of_memory(reader->table.path, error);
    if (length == 0)
        return error_set(error, -EINVAL, "%s:%lld: the row names no image", reader->table.path,
                         (long long)reader->table.line);
    if (fault)
        return error_set_errno(error, fault, "%s:%lld: cannot look at the image %s",
                               reader->table.path, (long long)reader->table.line, path);
    if (!S_ISREG(status.st_mode))
        return error_set(error, -EINVAL, "%s:%lld: %s is not a regular file", reader->table.path,
                         (long long)reader->table.line, path);
    return image_scan_add(&reader->scan, name, label, &status, error);
}

static int values_add(struct image_csv *reader, const char *row, const char *end,
                      struct error *error)
{
    size_t width = (size_t)reader->target_count, count = (size_t)reader->scan.count;
    enum dataset_plain plain = reader->table.config->plain_targets;

    if ((count & (count - 1)) == 0) { /* room for twice as many rows */
        float *grown = reallocarray(reader->values, (count ? 2 * count : 1) * width, sizeof *grown);

        if (!grown)
            return reader_out_of_memory(reader->table.path, error);
        reader->values = grown;
    }
    for (size_t i = 0; i < width; i++) {
        char shown[CSV_SHOWN_SIZE];
        size_t length;
        const char *cell = csv_cell_find(&reader->table, row, end, reader->targets[i], &length),
                   *rest;
        const char *fault;
        double value = 0;

        rest = plain_label_parse(plain, cell, length, &value) ? cell + length
               : length ? number_parse(cell, cell + length, &value)
                        : NULL;
        if (rest != cell + length || value > 3e38 || value < -3e38)
            return error_set(error, -EINVAL,
                             "%s:%lld: \"%s\" in column %d is no number, but the values to "
                             "predict are; name their columns by targets",
                             reader->table.path, (long long)reader->table.line,
                             csv_cell_show(cell, length, shown), reader->targets[i] + 1);
        fault = plain_target_fault(plain, value);
        if (fault)
            return error_set(error, -EINVAL, "%s:%lld: \"%s\" in column %d is to be predicted, %s",
                             reader->table.path, (long long)reader->table.line,
                             csv_cell_show(cell, length, shown), reader->targets[i] + 1, fault);
        reader->values[count * width + i] = (float)value;
    }
    return plain_targets_check_row(plain, reader->values + count * width, (int64_t)width,
                                   reader->table.path, reader->table.line, error);
}

static int label_number(struct image_csv *reader, const char *row, const char *cell, size_t length,
                        struct error *error)
{
    AUTO_FREE char *name = csv_cell_copy(row, cell, length);

    if (!name)
        return reader_out_of_memory(reader->table.path, error);
    if (length == 0)
        return error_set(error, -EINVAL, "%s:%lld: the row has no label", reader->table.path,
                         (long long)reader->table.line);
    return label_names_number(&reader->names, name, strlen(name), reader->table.path,
                              reader->table.line, error);
}

static int row_read(void *context, const char *row, const char *end, struct error *error)
{
    struct image_csv *reader = context;
    const struct csv_table *table = &reader->table;
    const char *at = row, *cell, *image = row, *label = row;
    size_t length, image_length = 0, label_length = 0;
    int32_t count = 0;
    int r = 0;

    for (; csv_cell_next(table, &at, end, &cell, &length); count++) {
        if (csv_cell_is_quoted(row, cell) && !csv_cell_is_whole(table, cell, length, end))
            return csv_report_quote(table, count, error);
        if (memchr(cell, '\0', length))
            return csv_report_zero(table, count, "the cell", error);
        if (count == reader->image_column) {
            image = cell;
            image_length = length;
        } else if (count == reader->label_column) {
            label = cell;
            label_length = length;
        }
    }
    if (count != table->columns)
        return csv_report_columns(table, count, error);
    if (reader->target_count)
        r = values_add(reader, row, end, error);
    else if (reader->label_column >= 0)
        r = label_number(reader, row, label, label_length, error);
    return r < 0 ? r : image_add(reader, row, image, image_length, r, error);
}

/* ---- the set ---- */

/* Gives the files the classes that their labels are. */
static int classes_resolve(struct image_csv *reader, const struct dataset *reference,
                           struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int r;

    dataset->count = reader->scan.count;
    dataset->labels = malloc((size_t)dataset->count * sizeof *dataset->labels);
    if (!dataset->labels)
        return reader_out_of_memory(reader->table.path, error);
    for (int64_t i = 0; i < dataset->count; i++)
        dataset->labels[i] = reader->scan.files[i].label;
    r = label_names_resolve(&reader->names, reader->table.config, reference, dataset, error);
    for (int64_t i = 0; r == 0 && i < dataset->count; i++)
        reader->scan.files[i].label = dataset->labels[i];
    free(TAKE_POINTER(dataset->labels));
    dataset->count = 0;
    return r;
}

static int images_list(struct image_csv *reader, const struct dataset *reference,
                       struct error *error)
{
    struct dataset *dataset = reader->dataset;
    int r = csv_table_read(&reader->table, dataset, error);

    if (r == 0 && reader->scan.count == 0)
        r = error_set(error, -EINVAL, "%s names no image", reader->table.path);
    return r == 0 && dataset->target == DATASET_TARGET_CLASS && !reader->table.config->unlabelled
               ? classes_resolve(reader, reference, error)
               : r;
}

/* Reads the table; its images are in reader->scan then. Release with reader_release(). */
static int reader_open(struct image_csv *reader, const struct dataset_config *config,
                       const struct dataset *reference, struct dataset *dataset,
                       struct error *error)
{
    int r;

    *reader =
        (struct image_csv){.dataset = dataset, .reference = reference, .folder = folder_of(config)};
    csv_table_init(&reader->table, config);
    reader->table.delimiter = config->csv.delimiter;
    reader->table.context = reader;
    reader->table.row_is_header = row_is_header;
    reader->table.begin = table_begin;
    reader->table.read_row = row_read;
    reader->scan.folder = reader->folder ? strdup(reader->folder) : NULL;
    r = reader->scan.folder ? images_list(reader, reference, error)
                            : reader_out_of_memory(config->paths[0], error);
    reader_unmap_all(dataset);
    return r;
}

static void reader_release(struct image_csv *reader)
{
    csv_table_release(&reader->table);
    label_names_release(&reader->names);
    image_scan_release(&reader->scan);
    free(reader->folder);
    free(reader->targets);
    free(reader->values);
}

int image_csv_scan(const struct dataset_config *config, struct image_scan *scan,
                   struct error *error)
{
    struct dataset mappings = {0};
    struct image_csv reader;
    int r = reader_open(&reader, config, NULL, &mappings, error);

    if (r == 0) {
        *scan = reader.scan;
        reader.scan = (struct image_scan){0};
    }
    reader_release(&reader);
    free(mappings.mappings);
    return r;
}

int image_csv_read(const struct dataset_config *config, const struct dataset *reference,
                   struct dataset *dataset, struct error *error)
{
    struct image_csv reader;
    int r = reader_open(&reader, config, reference, dataset, error);

    if (r == 0)
        r = image_set_read("image_csv", config, reference, &reader.scan, reader.values,
                           reader.target_count, dataset, error);
    reader_release(&reader);
    return r;
}
