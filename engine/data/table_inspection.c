/* table_inspection.c: see table_inspection.h. */
#include "engine/data/table_inspection.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/csv_table.h"
#include "engine/data/reader.h"
#include "engine/data/table_columns.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Numbers with no more different values than this are probably classes. So many samples that are
 * all alone in their classes are refused (label_names.c). */
enum { CLASSES_PROBABLE = 20, SAMPLES_OF_CLASS = 5, ALONE_MIN = 4, ORDER_BYTES = 32 };

/* How the cells of a column follow each other, as ISO dates do in the order of bytes. */
struct order {
    char latest[ORDER_BYTES];
    bool rises, falls;
    size_t longest; /* bytes of a cell */
};

/* Cells of a column that are no plain numbers. */
struct oddities {
    struct table_words placeholders;
    bool others; /* texts that are no placeholders */
    bool zeros;  /* numbers with zeros in front */
};

struct inspector {
    const struct dataset_config *config;
    struct csv_table table;
    struct table_columns *columns;
    bool *whole;
    struct order *orders;
    struct oddities *oddities;
    struct table_words missing;
    int64_t row;
};

static bool row_is_header(void *context, const char *row, const char *end, struct csv_cursor rest)
{
    struct inspector *inspector = context;
    bool doubtful;

    return table_row_is_header(&inspector->table, row, end, rest, &doubtful);
}

static int columns_begin(void *context, struct error *error)
{
    struct inspector *inspector = context;
    struct csv_table *table = &inspector->table;
    int r = table_names_make(table, error);

    if (r < 0)
        return r;
    inspector->columns = table_columns_create(table->columns, table->unique_names);
    inspector->whole = malloc((size_t)table->columns * sizeof *inspector->whole);
    inspector->orders = calloc((size_t)table->columns, sizeof *inspector->orders);
    inspector->oddities = calloc((size_t)table->columns, sizeof *inspector->oddities);
    if (!inspector->columns || !inspector->whole || !inspector->orders || !inspector->oddities)
        return reader_out_of_memory(table->path, error);
    memset(inspector->whole, true, (size_t)table->columns * sizeof *inspector->whole);
    for (int32_t i = 0; i < table->columns; i++)
        inspector->orders[i] = (struct order){"", true, true, 0};
    return 0;
}

static void order_follow(struct order *order, const struct table_cell *cell)
{
    size_t length = cell->length < ORDER_BYTES ? cell->length : ORDER_BYTES - 1;
    char text[ORDER_BYTES];
    int difference;

    memcpy(text, cell->text, length);
    text[length] = '\0';
    difference = order->latest[0] ? strcmp(text, order->latest) : 0;
    if (cell->length > order->longest)
        order->longest = cell->length;
    order->rises &= difference >= 0;
    order->falls &= difference <= 0;
    memcpy(order->latest, text, length + 1);
}

static void word_add(struct table_words *words, const char *text, size_t length)
{
    if (length == 0 || length >= TABLE_WORD_BYTES || words->count == TABLE_WORDS_MAX)
        return;
    for (int i = 0; i < words->count; i++)
        if (strlen(words->texts[i]) == length && memcmp(words->texts[i], text, length) == 0)
            return;
    memcpy(words->texts[words->count], text, length);
    words->texts[words->count++][length] = '\0';
}

/* Whether the text mostly stands for no value among numbers. Among texts it may be a value, as "-"
 * is beside "+". */
static bool is_placeholder(const char *text, size_t length)
{
    static const char *const words[] = {
        "-",       "--",        "---",     ".",     "..",    "...",    "*",       "**",      "nil",
        "nan",     "na",        "n.a.",    "n/a",   "none",  "null",   "missing", "unknown", "void",
        "#value!", "undefined", "#div/0!", "#ref!", "#num!", "#name?", "(null)",  "\\n"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && strncasecmp(text, words[i], length) == 0)
            return true;
    return false;
}

static int cell_survey(void *context, int32_t place, const struct table_cell *cell,
                       struct error *error)
{
    struct inspector *inspector = context;
    struct table_column *column = &inspector->columns->columns[place];
    struct oddities *oddities = &inspector->oddities[place];
    double value;

    if (table_cell_is_missing(inspector->config, cell->text, cell->length)) {
        column->missing++;
        word_add(&inspector->missing, cell->text, cell->length);
        return 0;
    }
    order_follow(&inspector->orders[place], cell);
    oddities->zeros |= table_text_has_zeros(cell->text, cell->length);
    if (table_cell_number(inspector->config, cell->text, cell->length, &value))
        inspector->whole[place] &= value == floor(value);
    else if (is_placeholder(cell->text, cell->length))
        word_add(&oddities->placeholders, cell->text, cell->length);
    else
        oddities->others = true;
    return table_column_survey(column, inspector->config, cell, error);
}

static int row_read(void *context, const char *row, const char *end, struct error *error)
{
    struct inspector *inspector = context;

    return table_row_visit(&inspector->table, row, end, inspector->row++, NULL, cell_survey,
                           inspector, error);
}

/* ---- what follows ---- */

/* Whether a specification can name this column. */
static bool name_tells(const struct csv_table *table, int32_t place)
{
    enum { NAME_BYTES_MAX = 255 }; /* of label_column */
    const char *name = table->names ? table->unique_names[place] : "";
    bool is_place = strcmp(name, "first") == 0 || strcmp(name, "last") == 0;
    bool is_written = *name && strcmp(name, table->names[place]) == 0;

    return *name && !is_place && !(is_written && table->name_repeats[place]) &&
           strlen(name) <= NAME_BYTES_MAX && text_is_utf8(name, strlen(name));
}

static int compare_values(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

/* How many classes the cells are, if all are numbers: 1 and 1.0 are one. */
static int32_t count_values(const struct dataset_config *config, const struct table_column *column)
{
    double values[TABLE_CATEGORIES_MAX + 1];
    int32_t count = 0, different = 0;

    for (int32_t i = 0; i < column->texts.count && i <= TABLE_CATEGORIES_MAX; i++)
        if (table_cell_number(config, column->texts.names[i].text,
                              strlen(column->texts.names[i].text), &values[count]))
            count++;
    if (count < column->texts.count)
        return column->texts.count;
    qsort(values, (size_t)count, sizeof *values, compare_values);
    for (int32_t i = 0; i < count; i++)
        different += i == 0 || values[i] != values[i - 1];
    return different;
}

static int column_describe(struct inspector *inspector, int32_t place,
                           struct table_inspection_column *to, struct error *error)
{
    static const char *const kinds[] = {[TABLE_NUMBER] = "number",
                                        [TABLE_CATEGORY] = "category",
                                        [TABLE_DATE] = "date",
                                        [TABLE_LEFT_OUT] = "left out"};
    struct table_column *column = &inspector->columns->columns[place];
    struct error problem = {0};

    to->name = strdup(column->name);
    if (!to->name)
        return error_no_memory(error, "the columns");
    to->needs_number = !name_tells(&inspector->table, place);
    to->present = column->present;
    to->missing = column->missing;
    to->different = column->texts.count > TABLE_CATEGORIES_MAX ? -1 : column->texts.count;
    to->values = count_values(inspector->config, column);
    to->lowest = column->numbers ? column->lowest : NAN;
    to->highest = column->numbers ? column->highest : NAN;
    to->whole = column->numbers == column->present && inspector->whole[place];
    to->computable = column->numbers == column->present && !column->too_large;
    to->numeric = 2 * column->numbers > column->present;
    to->has_commas = column->comma_numbers &&
                     inspector->config->table.decimal != DATASET_DECIMAL_COMMA &&
                     column->numbers + column->comma_numbers == column->present;
    to->has_placeholders = to->numeric && inspector->oddities[place].placeholders.count &&
                           !inspector->oddities[place].others;
    to->has_zeros = inspector->oddities[place].zeros;
    to->rises = inspector->orders[place].rises;
    to->falls = inspector->orders[place].falls;
    to->longest = (int64_t)inspector->orders[place].longest;
    for (int32_t i = 0; i < TABLE_EXAMPLES && i < column->texts.count; i++)
        text_escape_controls(column->texts.names[i].text, to->examples[i], TABLE_EXAMPLE_BYTES);
    if (table_column_decide(column, inspector->config, inspector->row, &to->reason, &problem) < 0) {
        to->kind = "unclear";
        snprintf(to->problem, sizeof to->problem, "%.*s", TABLE_PROBLEM_BYTES - 1, problem.text);
    } else {
        to->kind = kinds[column->kind];
        to->hint = table_column_hint(column);
    }
    return 0;
}

/* The first column that is called as targets mostly are: by the best name, because "y" beside a
 * "label" is a coordinate. -1: there is none. */
static int32_t find_called_target(const struct table_inspection *inspection)
{
    static const char *const names[] = {"target", "label", "labels", "class", "outcome", "y"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int32_t column = 0; column < inspection->count; column++) {
            const char *name = inspection->columns[column].name;

            if (name && strcasecmp(name, names[i]) == 0)
                return column;
        }
    return -1;
}

/* Few different values are probably classes; a column of numbers with fractions is none. */
static int32_t count_classes(const struct table_inspection_column *column, int64_t rows)
{
    bool numbers = !column->kind || strcmp(column->kind, "category") != 0;

    if (column->different < 0)
        return 0;
    if (numbers && (!column->whole || column->different > CLASSES_PROBABLE ||
                    rows < SAMPLES_OF_CLASS * (int64_t)column->different))
        return 0;
    return numbers ? column->values : column->different;
}

/* Why the column cannot be predicted; NULL: it can. */
static const char *find_obstacle(const struct table_inspection_column *column, int64_t rows)
{
    if (column->present == 0)
        return "no row has a value there";
    if (column->different == 1)
        return "all rows have the same value there";
    if (strcmp(column->kind, "date") == 0)
        return "it holds dates, which are neither classes nor numbers";
    if (column->problem[0] && (!column->computable || !count_classes(column, rows)))
        return column->problem;
    if (!column->numeric && column->different == column->present && column->present >= ALONE_MIN)
        return "each value is a text of its own";
    return NULL;
}

static void set_target(struct table_inspection *inspection, int32_t column)
{
    inspection->target = column;
    inspection->obstacle = find_obstacle(&inspection->columns[column], inspection->rows);
    inspection->classes = count_classes(&inspection->columns[column], inspection->rows);
}

/* Takes the column that is called so, else the last one that can be predicted. */
static void find_target(struct table_inspection *inspection)
{
    const struct table_inspection_column *columns = inspection->columns;
    int32_t target = inspection->count - 1, called = find_called_target(inspection);

    while (target > 0 && (find_obstacle(&columns[target], inspection->rows) ||
                          (columns[target].different < 0 && !columns[target].numeric)))
        target--;
    if (find_obstacle(&columns[target], inspection->rows))
        target = inspection->count - 1;
    inspection->passed_over = called >= 0 ? called : inspection->count - 1;
    inspection->passed_over_reason =
        find_obstacle(&columns[inspection->passed_over], inspection->rows);
    inspection->is_called = called >= 0 && !inspection->passed_over_reason;
    if (inspection->is_called)
        target = called;
    set_target(inspection, target);
}

int table_inspection_set_target(struct table_inspection *inspection, const char *name,
                                struct error *error)
{
    char *end;
    long number = strtol(name, &end, 10);
    int32_t column =
        *name && !*end && number >= 0 && number < inspection->count ? (int32_t)number : -1;
    const char *obstacle;

    for (int32_t i = inspection->count - 1; i >= 0; i--)
        if (strcmp(inspection->columns[i].name, name) == 0)
            column = i;
    if (column < 0)
        return error_set(error, -EINVAL,
                         "the table has no column \"%s\"; without --target all columns are listed",
                         name);
    obstacle = find_obstacle(&inspection->columns[column], inspection->rows);
    if (obstacle)
        return error_set(error, -EINVAL, "the column \"%s\" cannot be predicted: %s", name,
                         obstacle);
    set_target(inspection, column);
    return 0;
}

static const char *find_encoding(const struct dataset_config *config, struct error *error)
{
    struct dataset file = {0};
    const struct dataset_mapping *mapping;
    const char *encoding = NULL;

    if (reader_map(&file, config->directory, config->paths[0], &mapping, error) == 0) {
        encoding = reader_find_encoding(mapping->address, mapping->bytes);
        if (!encoding)
            encoding = text_is_utf8(mapping->address, mapping->bytes) ? "UTF-8"
                                                                      : "bytes that are no UTF-8";
    }
    reader_unmap_all(&file);
    free(file.mappings);
    return encoding;
}

static int inspect_rows(struct inspector *inspector, struct table_inspection *inspection,
                        struct error *error)
{
    int r = 0;

    inspection->delimiter = inspector->table.delimiter;
    inspection->has_header = inspector->table.names != NULL;
    inspection->rows = inspector->row;
    inspection->columns = calloc((size_t)inspector->columns->count, sizeof *inspection->columns);
    if (!inspection->columns)
        return error_no_memory(error, "the columns");
    for (int32_t i = 0; i < inspector->columns->count && r == 0; i++) {
        const struct table_words *words = &inspector->oddities[i].placeholders;

        inspection->count++;
        r = column_describe(inspector, i, &inspection->columns[i], error);
        for (int k = 0; k < words->count && inspection->columns[i].has_placeholders; k++)
            word_add(&inspector->missing, words->texts[k], strlen(words->texts[k]));
    }
    inspection->missing = inspector->missing;
    if (r == 0)
        find_target(inspection);
    return r;
}

int table_inspect(const struct dataset_config *config, struct table_inspection *inspection,
                  struct error *error)
{
    struct inspector inspector = {.config = config};
    struct dataset dataset = {0};
    int r;

    *inspection = (struct table_inspection){.encoding = find_encoding(config, error)};
    if (!inspection->encoding)
        return -EINVAL;
    csv_table_init(&inspector.table, config);
    inspector.table.delimiter = config->csv.delimiter;
    inspector.table.context = &inspector;
    inspector.table.row_is_header = row_is_header;
    inspector.table.begin = columns_begin;
    inspector.table.read_row = row_read;
    r = csv_table_read(&inspector.table, &dataset, error);
    inspection->comments = inspector.table.comments;
    snprintf(inspection->probable_comment, TABLE_COMMENT_BYTES, "%s",
             inspector.table.probable_comment);
    if (r == 0 && inspector.row == 0)
        r = error_set(error, -EINVAL, "%s has no row%s", config->paths[0],
                      inspector.columns ? " behind the names of the columns" : "");
    if (r == 0)
        r = inspect_rows(&inspector, inspection, error);
    csv_table_release(&inspector.table);
    table_columns_free(inspector.columns);
    free(inspector.whole);
    free(inspector.orders);
    free(inspector.oddities);
    reader_unmap_all(&dataset);
    free(dataset.mappings);
    return r;
}

bool table_comment_is_mark(const char *comment)
{
    return csv_comment_is_mark(comment);
}

void table_inspection_release(struct table_inspection *inspection)
{
    for (int32_t i = 0; i < inspection->count; i++)
        free(inspection->columns[i].name);
    free(inspection->columns);
    *inspection = (struct table_inspection){0};
}
