/* table_features.c: cells become the features of their columns, as the survey of the training table
 * decided; see table_columns.h. */
#include "engine/data/table_columns.h"

#include <stdio.h>
#include <string.h>

static bool encode_category(const struct table_column *column, const char *text, size_t length,
                            float *features, int64_t *unknown)
{
    int32_t low = 0, high = column->category_count;

    while (low < high) {
        int32_t middle = (low + high) / 2;
        const char *other = column->categories[middle];
        size_t other_length = strlen(other);
        int order = memcmp(text, other, length < other_length ? length : other_length);

        if (order == 0 && length == other_length) {
            features[middle] = 1;
            return true;
        }
        if (order < 0 || (order == 0 && length < other_length))
            high = middle;
        else
            low = middle + 1;
    }
    ++*unknown;
    return true;
}

/* Also the mean of dates, which have no bins. */
static void encode_number(const struct table_column *column, double value, float *features)
{
    features[0] = (float)value;
    table_bins_encode(column->edges, column->edge_count, value, features + 1);
}

bool table_column_encode(const struct table_column *column, const struct dataset_config *config,
                         const char *text, size_t length, float *features, int64_t *unknown)
{
    struct table_date date;
    enum table_unit unit;
    double value;

    memset(features, 0, (size_t)column->features * sizeof *features);
    if (!text) {
        if (column->kind != TABLE_CATEGORY)
            encode_number(column, column->mean, features);
        if (column->marks_missing)
            features[column->features - 1] = 1;
        return true;
    }
    switch (column->kind) {
    case TABLE_NUMBER:
        if (!table_cell_number_with_unit(config, text, length, &value, &unit) ||
            unit != column->unit)
            return false;
        encode_number(column, value, features);
        return true;
    case TABLE_CATEGORY:
        return encode_category(column, text, length, features, unknown);
    case TABLE_DATE:
        if (!table_date_parse(text, length, column->order, &date))
            return false;
        table_date_features(&date, column->has_time, features);
        return true;
    case TABLE_LEFT_OUT:
        break;
    }
    return true;
}

char *table_feature_name(const struct table_column *column, int32_t feature)
{
    char *name;
    int written;

    if (column->marks_missing && feature == column->features - 1)
        written = asprintf(&name, "%s is missing", column->name);
    else if (column->kind == TABLE_CATEGORY)
        written = asprintf(&name, "%s=%s", column->name, column->categories[feature]);
    else if (column->kind == TABLE_DATE)
        written = asprintf(&name, "%s:%s", column->name, table_date_feature_name(feature));
    else if (feature > 0)
        written = asprintf(&name, "%s:bin_%d", column->name, feature);
    else
        written = asprintf(&name, "%s", column->name);
    return written < 0 ? NULL : name;
}
