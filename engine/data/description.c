/* description.c: see description.h. A line is a key and its values, between blanks. In a value,
 * bytes other than visible ASCII are written as % and two hexadecimal digits, and an empty value is
 * a % alone; numbers with a fraction are hexadecimal, so that they keep all bits. */
#include "engine/data/description.h"

#include "base/cleanup.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 1 << 24 /* names, columns and classes that a description may list */ };

static const char *const element_names[] = {
    [DATASET_UINT8] = "uint8", [DATASET_FLOAT32] = "float32", [DATASET_INT32] = "int32"};
static const char *const kind_names[] = {[TABLE_NUMBER] = "number",
                                         [TABLE_CATEGORY] = "category",
                                         [TABLE_DATE] = "date",
                                         [TABLE_LEFT_OUT] = "left_out"};
enum { ELEMENTS = sizeof element_names / sizeof *element_names };
enum { KINDS = sizeof kind_names / sizeof *kind_names };

/* ---- writing ---- */

static void write_value(FILE *file, const char *value)
{
    fputc(' ', file);
    if (!*value)
        fputc('%', file);
    for (; *value; value++) {
        uint8_t byte = (uint8_t)*value;

        if (byte <= ' ' || byte == '%' || byte >= 0x7f)
            fprintf(file, "%%%02x", byte);
        else
            fputc(byte, file);
    }
}

static void write_line(FILE *file, const char *key, const char *value)
{
    if (!value)
        return;
    fputs(key, file);
    write_value(file, value);
    fputc('\n', file);
}

static void write_column(FILE *file, const struct table_column *column)
{
    fprintf(file, "column %s %d %d %d %d %a", kind_names[column->kind], (int)column->order,
            column->has_time, column->marks_missing, column->target, column->mean);
    write_value(file, column->name);
    fputc('\n', file);
    if (column->edge_count)
        fputs("bins", file);
    for (int32_t i = 0; i < column->edge_count; i++)
        fprintf(file, " %a%s", column->edges[i], i + 1 < column->edge_count ? "" : "\n");
    if (column->unit)
        fprintf(file, "unit %d\n", (int)column->unit);
    for (int32_t i = 0; i < column->category_count; i++)
        write_line(file, "category", column->categories[i]);
}

static void write_table(FILE *file, const struct table_columns *columns)
{
    fprintf(file, "table %d %d\n", columns->count, columns->has_names);
    for (int32_t i = 0; i < columns->count; i++)
        write_column(file, &columns->columns[i]);
    for (int32_t i = 0; i < columns->label_count; i++)
        fprintf(file, "label %a\n", columns->label_values[i]);
}

/* Of a time series the columns of a sample, then those to predict; of images the latter. */
static void write_value_names(FILE *file, const struct dataset *dataset)
{
    const struct dataset_series *series = &dataset->series;

    for (int32_t i = 0; series->names && i < series->features + series->values; i++)
        write_line(file, i < series->features ? "series_feature" : "series_value",
                   series->names[i]);
    for (int32_t i = 0; i < dataset->value_name_count; i++)
        write_line(file, "value", dataset->value_names[i]);
}

char *dataset_description_format(const struct dataset *dataset)
{
    AUTO_FREE char *vocabulary = NULL;
    char *text = NULL;
    size_t size;
    FILE *file;

    if (dataset_format_has_symbols(dataset->format) &&
        !(vocabulary = dataset_vocabulary_format(&dataset->vocabulary)))
        return NULL;
    file = open_memstream(&text, &size);
    if (!file)
        return NULL;
    fprintf(file, "format %s\ntarget %s\nelement %s\nshape",
            dataset_format_to_string(dataset->format),
            dataset->target == DATASET_TARGET_CLASS ? "class" : "value",
            element_names[dataset->element]);
    for (int i = 0; i < dataset->rank; i++)
        fprintf(file, " %" PRId64, dataset->shape[i]);
    fprintf(file, "\nclasses %d\nwidth %d\nlabel_column %d\n", dataset->classes,
            dataset->target_width, dataset->label_column);
    if (dataset->lengths)
        fputs("lengths\n", file);
    for (int32_t i = 0; i < dataset->class_count; i++)
        write_line(file, "class", dataset->class_names[i]);
    write_line(file, "target_name", dataset->target_name);
    write_value_names(file, dataset);
    if (dataset->table)
        write_table(file, dataset->table); /* which the names of its features follow from */
    for (int64_t i = 0; !dataset->table && dataset->column_names && i < dataset->sample_elements;
         i++)
        write_line(file, "feature", dataset->column_names[i]);
    write_line(file, "vocabulary", vocabulary);
    if (fclose(file) == 0)
        return text;
    free(text);
    return NULL;
}

const char *dataset_target_name(const struct dataset *dataset, int32_t index)
{
    const struct table_columns *columns = dataset->table;

    for (int32_t i = 0; columns && columns->has_names && i < columns->count; i++)
        if (columns->columns[i].target == index)
            return columns->columns[i].name;
    if (index < dataset->value_name_count)
        return dataset->value_names[index];
    return columns || index ? NULL : dataset->target_name;
}

const char *dataset_class_name(const struct dataset *dataset, int64_t class,
                               char text[DATASET_CLASS_BYTES])
{
    if (dataset->class_names && class < dataset->class_count)
        return dataset->class_names[class];
    snprintf(text, DATASET_CLASS_BYTES, dataset->class_names ? "unnamed class %lld" : "%lld",
             (long long)class);
    return text;
}

/* ---- reading ---- */

struct description {
    struct dataset *dataset;
    char *at; /* in the line that is being read, behind its key; NULL: there is no further value */
    int32_t class_capacity, feature_capacity, category_capacity, label_capacity, features, columns;
    int32_t value_capacity, series_capacity, series_names;
};

static int hexadecimal(char digit)
{
    return digit >= '0' && digit <= '9'   ? digit - '0'
           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                                          : -1;
}

/* Takes the next value of the line, decoded in place; NULL: there is none, or it is damaged. */
static char *take_text(struct description *description)
{
    char *begin = description->at, *from = begin, *to = begin;

    if (!begin)
        return NULL;
    description->at = strchr(begin, ' ');
    if (description->at)
        *description->at++ = '\0';
    if (strcmp(begin, "%") == 0)
        *from = '\0';
    while (*from) {
        int high, low;

        if (*from != '%') {
            *to++ = *from++;
            continue;
        }
        high = hexadecimal(from[1]);
        low = high < 0 ? -1 : hexadecimal(from[2]);
        if (low < 0 || high * 16 + low == 0)
            return NULL;
        *to++ = (char)(high * 16 + low);
        from += 3;
    }
    *to = '\0';
    return begin;
}

static bool take_integer(struct description *description, int64_t least, int64_t most,
                         int64_t *number)
{
    const char *text = take_text(description);
    char *end;

    if (!text)
        return false;
    *number = strtoll(text, &end, 10);
    return end > text && !*end && *number >= least && *number <= most;
}

static bool take_number(struct description *description, double *number)
{
    const char *text = take_text(description);
    char *end;

    if (!text)
        return false;
    *number = strtod(text, &end);
    return end > text && !*end && isfinite(*number);
}

static bool take_choice(struct description *description, const char *const *names, int count,
                        int *choice)
{
    const char *text = take_text(description);

    for (int i = 0; text && i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

/* Appends a copy of the next value to the list. */
static bool take_name(struct description *description, char ***names, int32_t *count,
                      int32_t *capacity)
{
    const char *name = take_text(description);

    if (!name || *count == COUNT_MAX)
        return false;
    if (*count == *capacity) {
        int32_t wanted = *capacity ? 2 * *capacity : 16;
        char **grown = reallocarray(*names, (size_t)wanted, sizeof **names);

        if (!grown)
            return false;
        *names = grown;
        *capacity = wanted;
    }
    (*names)[*count] = strdup(name);
    return (*names)[*count] && ++*count;
}

static bool read_format(struct description *description)
{
    const char *name = take_text(description);
    int format = name ? dataset_format_from_string(name) : -1;

    description->dataset->format = format < 0 ? 0 : (enum dataset_format)format;
    return format >= 0;
}

static bool read_target(struct description *description)
{
    static const char *const names[] = {
        [DATASET_TARGET_CLASS] = "class", [DATASET_TARGET_VALUE] = "value"};
    int target = 0;
    bool good = take_choice(description, names, 2, &target);

    description->dataset->target = (enum dataset_target)target;
    return good;
}

static bool read_element(struct description *description)
{
    int element = 0;
    bool good = take_choice(description, element_names, ELEMENTS, &element);

    description->dataset->element = (enum dataset_element)element;
    return good;
}

static bool read_shape(struct description *description)
{
    int64_t shape[DATASET_RANK_MAX], elements = 1;
    int rank = 0;

    while (description->at) {
        if (rank == DATASET_RANK_MAX || !take_integer(description, 1, INT32_MAX, &shape[rank]) ||
            __builtin_mul_overflow(elements, shape[rank], &elements))
            return false;
        rank++;
    }
    reader_set_shape(description->dataset, shape, rank);
    return rank > 0;
}

static bool read_int32(struct description *description, int32_t least, int32_t *to)
{
    int64_t number = least;
    bool good = take_integer(description, least, COUNT_MAX, &number);

    *to = (int32_t)number;
    return good;
}

static bool read_lengths(struct description *description)
{
    description->dataset->lengths = malloc(sizeof *description->dataset->lengths);
    return description->dataset->lengths != NULL; /* of no sample: that there are lengths counts */
}

static bool read_table(struct description *description)
{
    struct dataset *dataset = description->dataset;
    int64_t count, named;

    if (dataset->table || !take_integer(description, 1, CSV_COLUMNS_MAX, &count) ||
        !take_integer(description, 0, 1, &named))
        return false;
    dataset->table = table_columns_create((int32_t)count, NULL);
    if (!dataset->table)
        return false;
    dataset->table->has_names = named;
    return true;
}

static bool read_column(struct description *description)
{
    struct table_columns *columns = description->dataset->table;
    struct table_column *column;
    int64_t order, has_time, marks, target;
    const char *name;
    int kind = 0;

    if (!columns || description->columns == columns->count)
        return false;
    column = &columns->columns[description->columns++];
    if (!take_choice(description, kind_names, KINDS, &kind) ||
        !take_integer(description, 0, 1, &order) || !take_integer(description, 0, 1, &has_time) ||
        !take_integer(description, 0, 1, &marks) ||
        !take_integer(description, -1, COUNT_MAX, &target) ||
        !take_number(description, &column->mean) || !(name = take_text(description)))
        return false;
    column->kind = (enum table_kind)kind;
    column->order = (enum table_date_order)order;
    column->has_time = has_time;
    column->marks_missing = marks;
    column->target = (int32_t)target;
    free(column->name);
    column->name = strdup(name);
    description->category_capacity = 0;
    return column->name != NULL;
}

static bool read_category(struct description *description)
{
    struct table_column *column =
        description->columns ? &description->dataset->table->columns[description->columns - 1]
                             : NULL;

    return column && column->category_count < TABLE_CATEGORIES_MAX &&
           take_name(description, &column->categories, &column->category_count,
                     &description->category_capacity);
}

/* Early descriptions have none. */
static bool read_unit(struct description *description)
{
    struct table_columns *columns = description->dataset->table;
    int64_t unit;

    if (!description->columns || !take_integer(description, 0, TABLE_UNITS - 1, &unit))
        return false;
    columns->columns[description->columns - 1].unit = (enum table_unit)unit;
    return true;
}

/* The edges of a column's bins, of which each is beyond the last. */
static bool read_bins(struct description *description)
{
    double edges[TABLE_BINS_MAX + 1];
    struct table_column *column =
        description->columns ? &description->dataset->table->columns[description->columns - 1]
                             : NULL;
    int32_t count = 0;

    if (!column || column->kind != TABLE_NUMBER || column->edges)
        return false;
    for (; description->at; count++)
        if (count > TABLE_BINS_MAX || !take_number(description, &edges[count]) ||
            !isfinite(edges[count]) || (count && edges[count] <= edges[count - 1]))
            return false;
    column->edges = count >= 3 ? malloc((size_t)count * sizeof *edges) : NULL;
    if (!column->edges)
        return false;
    memcpy(column->edges, edges, (size_t)count * sizeof *edges);
    column->edge_count = count;
    return true;
}

static bool read_label(struct description *description)
{
    struct table_columns *columns = description->dataset->table;
    double *label;

    if (!columns || columns->label_count == COUNT_MAX)
        return false;
    if (columns->label_count == description->label_capacity) {
        int32_t capacity = description->label_capacity ? 2 * description->label_capacity : 16;
        double *grown =
            reallocarray(columns->label_values, (size_t)capacity, sizeof *columns->label_values);

        if (!grown)
            return false;
        columns->label_values = grown;
        description->label_capacity = capacity;
    }
    label = &columns->label_values[columns->label_count];
    return take_number(description, label) && (columns->label_count == 0 || *label > label[-1]) &&
           ++columns->label_count;
}

static bool read_target_name(struct description *description)
{
    struct dataset *dataset = description->dataset;
    const char *name = take_text(description);

    if (!name || dataset->target_name)
        return false;
    dataset->target_name = strdup(name);
    return dataset->target_name != NULL;
}

/* Earlier descriptions have no names of values and of series' columns. */
static bool read_value_name(struct description *description)
{
    struct dataset *dataset = description->dataset;

    return take_name(description, &dataset->value_names, &dataset->value_name_count,
                     &description->value_capacity);
}

static bool take_series_name(struct description *description, int32_t *count)
{
    return take_name(description, &description->dataset->series.names, &description->series_names,
                     &description->series_capacity) &&
           ++*count;
}

static bool read_series_feature(struct description *description)
{
    struct dataset_series *series = &description->dataset->series;

    return !series->values && take_series_name(description, &series->features);
}

static bool read_series_value(struct description *description)
{
    return take_series_name(description, &description->dataset->series.values);
}

static bool read_vocabulary(struct description *description)
{
    struct error ignored;
    const char *text = take_text(description);

    return text && !description->dataset->vocabulary.symbols &&
           dataset_vocabulary_parse(text, &description->dataset->vocabulary, &ignored) == 0;
}

static bool read_line(struct description *description, const char *key)
{
    static const struct {
        const char *key;
        bool (*read)(struct description *);
    } keys[] = {{"format", read_format},
                {"target", read_target},
                {"element", read_element},
                {"shape", read_shape},
                {"lengths", read_lengths},
                {"table", read_table},
                {"column", read_column},
                {"category", read_category},
                {"label", read_label},
                {"target_name", read_target_name},
                {"value", read_value_name},
                {"series_feature", read_series_feature},
                {"series_value", read_series_value},
                {"vocabulary", read_vocabulary},
                {"unit", read_unit},
                {"bins", read_bins}};
    struct dataset *dataset = description->dataset;

    if (strcmp(key, "class") == 0)
        return take_name(description, &dataset->class_names, &dataset->class_count,
                         &description->class_capacity);
    if (strcmp(key, "feature") == 0)
        return description->features < dataset->sample_elements &&
               take_name(description, &dataset->column_names, &description->features,
                         &description->feature_capacity);
    if (strcmp(key, "classes") == 0)
        return read_int32(description, 0, &dataset->classes);
    if (strcmp(key, "width") == 0)
        return read_int32(description, 1, &dataset->target_width);
    if (strcmp(key, "label_column") == 0)
        return read_int32(description, 0, &dataset->label_column);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].read(description);
    return true; /* a later version's */
}

/* Whether the columns of a time series that have names are those of its samples. */
static bool series_is_whole(const struct dataset *dataset)
{
    const struct dataset_series *series = &dataset->series;

    return !series->names || (dataset->format == DATASET_TIME_SERIES && dataset->rank == 2 &&
                              series->features == dataset->shape[1] && series->values > 0 &&
                              dataset->target_width % series->values == 0);
}

/* Whether each value to predict, or the class, has a column: what encodes a table writes by
 * them. */
static bool targets_are_whole(const struct dataset *dataset)
{
    const struct table_columns *columns = dataset->table;
    AUTO_FREE bool *found = calloc((size_t)dataset->target_width, sizeof *found);
    int32_t count = 0;

    for (int32_t i = 0; found && i < columns->count; i++) {
        int32_t target = columns->columns[i].target;

        if (target >= dataset->target_width || (target >= 0 && found[target]))
            return false;
        if (target >= 0)
            found[target] = ++count;
    }
    return count == dataset->target_width && columns->label_count <= dataset->classes;
}

/* Whether the parts belong together: what reads the set relies on it. */
static bool is_whole(struct description *description)
{
    struct dataset *dataset = description->dataset;
    struct table_columns *columns = dataset->table;

    if (dataset->rank == 0 || dataset->target_width < 1 ||
        (dataset->format == DATASET_TABLE) != (columns != NULL) ||
        (dataset->column_names && description->features != dataset->sample_elements) ||
        dataset_format_has_symbols(dataset->format) != (dataset->vocabulary.count > 0) ||
        (dataset->class_names && dataset->class_count > dataset->classes) ||
        (dataset->value_names && dataset->value_name_count != dataset->target_width) ||
        !series_is_whole(dataset))
        return false;
    if (!columns)
        return true;
    table_columns_number(columns);
    return description->columns == columns->count &&
           columns->features == dataset->sample_elements && targets_are_whole(dataset);
}

int dataset_description_parse(const char *text, struct dataset **dataset, struct error *error)
{
    AUTO_FREE char *copy = strdup(text);
    struct description description = {.dataset = calloc(1, sizeof(struct dataset))};
    char *line = copy, *next;
    int number = 1;

    if (!copy || !description.dataset) {
        free(description.dataset);
        return error_no_memory(error, "the description of the training data");
    }
    description.dataset->is_absent = true;
    for (; line && *line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        description.at = strchr(line, ' ');
        if (description.at)
            *description.at++ = '\0';
        if (!read_line(&description, line))
            break;
    }
    if ((!line || !*line) && is_whole(&description)) {
        *dataset = description.dataset;
        return 0;
    }
    for (int32_t i = 0; i < description.features; i++) /* there may be fewer than elements */
        free(description.dataset->column_names[i]);
    free(TAKE_POINTER(description.dataset->column_names));
    dataset_close(description.dataset);
    return error_set(error, -EINVAL,
                     "the description of the training data is damaged at line %d; take another "
                     "checkpoint of the run",
                     number);
}
