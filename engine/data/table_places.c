/* table_places.c: which columns of a table are read, and as what: of the training table those that
 * the configuration names, of others those of the training table. See table_reader.h. */
#include "base/cleanup.h"
#include "engine/data/reader.h"
#include "engine/data/table_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Sets the marks of the columns that the configuration names. */
static int mark_columns(const struct csv_table *table, const char *key, const char *const *names,
                        int count, bool *marks, struct error *error)
{
    for (int i = 0; i < count; i++) {
        int32_t column;
        int r = csv_column_find_named(table, key, names[i], &column, error);

        if (r < 0)
            return r;
        marks[column] = true;
    }
    return 0;
}

static int mark_targets(struct table_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    bool several = config->table.targets != NULL;
    int count = several ? config->table.target_count : 1;

    if (count > 1 && config->target == DATASET_TARGET_CLASS)
        return error_set(error, -EINVAL,
                         "targets names %d columns, but the classes of one column are predicted; "
                         "for several numbers choose the loss mse",
                         count);
    for (int i = 0; i < count; i++) {
        struct table_column *column;
        int32_t place;
        int r = several ? csv_column_find_named(&reader->table, "targets", config->table.targets[i],
                                                &place, error)
                        : csv_column_find_or_last(&reader->table, "label_column",
                                                  config->csv.label_column, -1, &place, error);

        if (r < 0)
            return r;
        column = &reader->columns->columns[place];
        if (column->target >= 0)
            return error_set(error, -EINVAL, "targets names the column %s twice", column->name);
        column->target = i;
    }
    reader->dataset->target_width = count;
    return 0;
}

/* Finds the column that `key` names, which is no feature unless `features` has it. NULL: no column
 * has that name. */
static struct table_column *mark_column_aside(struct table_reader *reader, const char *key,
                                              const char *name, const bool *features,
                                              struct error *error)
{
    int32_t place;
    struct table_column *column;

    if (csv_column_find_named(&reader->table, key, name, &place, error) < 0)
        return NULL;
    column = &reader->columns->columns[place];
    column->is_ignored |= !features[place];
    return column;
}

static int mark_columns_aside(struct table_reader *reader, const bool *features,
                              struct error *error)
{
    const struct dataset_config *config = reader->config;
    struct table_column *column;

    if (table_parts_check(config, error) < 0)
        return error->code;
    if (config->table.split_column) {
        column = mark_column_aside(reader, "data.split.column", config->table.split_column,
                                   features, error);
        if (!column)
            return error->code;
        column->is_split_key = true;
        if (config->table.day_first) /* the survey may find out otherwise */
            column->order = TABLE_DATE_DAY_FIRST;
    }
    if (config->table.weight_column) {
        column = mark_column_aside(reader, "weight_column", config->table.weight_column, features,
                                   error);
        if (!column)
            return error->code;
        column->is_weight = true;
    }
    return 0;
}

static int mark_features(struct table_reader *reader, struct error *error)
{
    const struct dataset_config *config = reader->config;
    const struct csv_table *table = &reader->table;
    size_t count = (size_t)table->columns;
    AUTO_FREE bool *features = calloc(count, sizeof *features);
    AUTO_FREE bool *ignored = calloc(count, sizeof *ignored);
    AUTO_FREE bool *categories = calloc(count, sizeof *categories);
    int r;

    if (!features || !ignored || !categories)
        return reader_out_of_memory(table->path, error);
    r = mark_columns(table, "features", config->table.features, config->table.feature_count,
                     features, error);
    if (r == 0)
        r = mark_columns(table, "ignore", config->table.ignored, config->table.ignored_count,
                         ignored, error);
    if (r == 0)
        r = mark_columns(table, "categories", config->table.categories,
                         config->table.category_count, categories, error);
    for (size_t i = 0; i < count && r == 0; i++) {
        reader->columns->columns[i].is_ignored =
            ignored[i] || (config->table.features && !features[i]);
        reader->columns->columns[i].is_category = categories[i];
    }
    return r == 0 ? mark_columns_aside(reader, features, error) : r;
}

/* Numbers the names of this table's columns from 0, in their order. */
static int index_names(const struct csv_table *table, struct label_names *index,
                       struct error *error)
{
    for (int32_t i = 0; table->unique_names && i < table->columns; i++) {
        const char *name = table->unique_names[i];
        int number = label_names_number(index, name, strlen(name), table->path, table->line, error);

        if (number < 0)
            return number;
    }
    return 0;
}

int table_columns_begin(void *context, struct error *error)
{
    struct table_reader *reader = context;
    struct csv_table *table = &reader->table;
    int r = table_names_make(table, error);

    if (r < 0)
        return r;
    reader->columns = reader->dataset->table =
        table_columns_create(table->columns, table->unique_names);
    reader->column_of = calloc((size_t)table->columns, sizeof *reader->column_of);
    if (!reader->columns || !reader->column_of)
        return reader_out_of_memory(table->path, error);
    for (int32_t i = 0; i < table->columns; i++)
        reader->column_of[i] = i;
    r = mark_features(reader, error);
    return r == 0 ? mark_targets(reader, error) : r;
}

/* Whether the set's columns are looked for: those to predict are not where they are not known. */
static bool is_wanted(const struct table_reader *reader, const struct table_column *column)
{
    return column->target < 0 || !reader->config->unlabelled;
}

/* Finds the columns of a table without names by their places, those to predict being there or
 * not. */
static int columns_match_places(struct table_reader *reader, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;
    int32_t wanted = 0, place = 0;

    for (int32_t i = 0; i < columns->count; i++)
        wanted += is_wanted(reader, &columns->columns[i]);
    if (table->columns != columns->count && table->columns != wanted)
        return error_set(error, -EINVAL, "%s has %d columns, but the training data %d", table->path,
                         table->columns, columns->count);
    for (int32_t i = 0; i < columns->count; i++) {
        bool is_there = is_wanted(reader, &columns->columns[i]);

        if (is_there)
            reader->column_of[place] = i;
        place += is_there || table->columns == columns->count;
    }
    return 0;
}

static int report_lacking(const struct csv_table *table, const char *name, struct error *error)
{
    char shown[CSV_SHOWN_SIZE];
    bool numbers = false;

    for (int32_t i = 0; i < table->columns; i++)
        numbers |= csv_cell_is_number(table->names[i], strlen(table->names[i]));
    return error_set(error, -EINVAL, "%s lacks the column \"%s\" of the training data%s",
                     table->path, csv_cell_show(name, strlen(name), shown),
                     numbers ? ": is its first row a sample? Then put the names in front" : "");
}

/* Finds the columns of the training table in this one by name. */
static int columns_match_names(struct table_reader *reader, struct error *error)
{
    const struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;
    CLEANUP(label_names_release) struct label_names index = {0};
    AUTO_FREE bool *known = calloc((size_t)table->columns, sizeof *known);
    AUTO_FREE bool *used = calloc((size_t)table->columns, sizeof *used);
    int r;

    if (!known || !used)
        return reader_out_of_memory(table->path, error);
    r = index_names(table, &index, error);
    for (int32_t i = 0; i < columns->count && r == 0; i++) {
        const struct table_column *column = &columns->columns[i];
        bool is_used = column->target >= 0 || column->kind != TABLE_LEFT_OUT;
        /* early checkpoints have "" for the only column without a name */
        const char *name = *column->name ? column->name : TABLE_NAMELESS "0";
        int32_t found = label_names_number(&index, name, strlen(name), table->path, 0, error);

        if (found < 0)
            return found;
        if (found < table->columns)
            known[found] = true;
        if (!is_wanted(reader, column))
            continue;
        if (found < table->columns) {
            reader->column_of[found] = i;
            used[found] = is_used;
        } else if (is_used) {
            r = report_lacking(table, column->name, error);
        }
    }
    return r == 0 ? table_names_check(table, known, used, error) : r;
}

int table_columns_match(void *context, struct error *error)
{
    struct table_reader *reader = context;
    struct csv_table *table = &reader->table;
    const struct table_columns *columns = reader->columns;
    int r = table_names_make(table, error);

    if (r < 0)
        return r;
    if (columns->has_names != (table->names != NULL))
        return error_set(error, -EINVAL,
                         "%s:%lld: the training data %s, but this table %s; set header if that is "
                         "not so",
                         table->path, (long long)table->line,
                         columns->has_names ? "have a row of names" : "have no row of names",
                         table->names ? "has one" : "has none");
    reader->column_of = calloc((size_t)table->columns, sizeof *reader->column_of);
    if (!reader->column_of)
        return reader_out_of_memory(table->path, error);
    memset(reader->column_of, 0xff, (size_t)table->columns * sizeof *reader->column_of); /* -1 */
    return table->names ? columns_match_names(reader, error) : columns_match_places(reader, error);
}
