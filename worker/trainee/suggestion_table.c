/* suggestion_table.c: specifications that would learn from a table: from its rows, from the texts
 * of one column, or from the order of its rows in time. */
#include "worker/trainee/suggestion.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SEQUENCE_BYTES = 16, /* texts of at least so many are read as sequences */
    SERIES_ROWS = 48,    /* that a forecast needs at least */
    SERIES_PART = 10,    /* a sample holds at most so large a part of the rows */
    INPUT_MOST = 48,
    TEST_IN = 5 /* of so many rows the last is tested on */
};

/* Bins of columns of numbers where nothing was measured (recipe_measure.h): of the tables of
 * tests/bench/tables fewer are behind gradient boosting with them than without. Tables with more
 * such columns mostly lost by them. */
enum { TABLE_BINS = 8, COLUMNS_WITH_BINS_MAX = 20 };

/* Of eight recipes that tests/bench/tables was run with, this one was behind gradient boosting on
 * the fewest of its tables. Long tables need fewer epochs. */
static const struct suggestion_recipe table_recipe = {
    "linear layers over the columns",
    "{\"name\": \"mlp\", \"hidden\": [256, 256]}",
    "{\"optimizer\": {\"name\": \"adamw\", \"lr\": 0.003, \"weight_decay\": 0.1}, "
    "\"schedule\": {\"name\": \"cosine\"}}",
    20000000,
    20,
    200};

#define SERIES_TRAINING                                                                        \
    "{\"batch_size\": 32, \"optimizer\": {\"name\": \"adamw\", \"lr\": 0.003}, \"schedule\": " \
    "{\"name\": \"cosine\"}, \"clip_norm\": 1.0}"
/* Of short series a linear model is the better one: tests/bench/init. */
static const struct suggestion_recipe series_recipes[] = {
    {"linear in the rows before: fast, and hard to beat", "{\"name\": \"mlp\", \"hidden\": []}",
     SERIES_TRAINING, 200000, 10, 200},
    {"an LSTM over the rows before", "{\"name\": \"lstm\", \"hidden_size\": 32}", SERIES_TRAINING,
     200000, 10, 200},
    {"a GRU over the rows before", "{\"name\": \"gru\", \"hidden_size\": 32}", SERIES_TRAINING,
     200000, 10, 200}};

/* ---- rows ---- */

/* Whether the name says that numbers tell things apart, and count nothing: "id", "store_id",
 * "customerID", "zip". */
static bool is_called_identity(const char *name)
{
    static const char *const names[] = {"id", "code", "nr", "number", "zip", "zipcode", "postcode"};
    static const char *const ends[] = {"_id", ".id", " id", "-id", "Id", "ID"};
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length > strlen(ends[i]) && strcmp(name + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* Whether each text of the column returns, on average, and they are no more than categories. */
static bool has_few_texts(const struct table_inspection_column *column)
{
    return column->different >= 0 && 2 * (int64_t)column->different <= column->present;
}

static void list_add(struct json_object *train, const char *key,
                     const struct table_inspection *table, int32_t place)
{
    const struct table_inspection_column *column = &table->columns[place];
    struct json_object *list = json_get(train, key);
    char number[16];

    if (!list)
        json_set(train, key, list = json_object_new_array());
    snprintf(number, sizeof number, "%d", place);
    json_object_array_add(list,
                          json_object_new_string(column->needs_number ? number : column->name));
}

/* What is done with columns that are unclear: few texts are categories, others are left out. Few
 * numbers are categories, too, if they are called so or written as codes, such as 02134: a
 * household's number is no quantity. */
static void suggest_categories(const struct table_inspection *table, struct json_object *train)
{
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_inspection_column *column = &table->columns[i];
        bool few = has_few_texts(column);

        if (i == table->target)
            continue;
        if (column->problem[0])
            list_add(train, few ? "categories" : "ignore", table, i);
        else if (few && column->whole && strcmp(column->kind, "number") == 0 &&
                 (column->has_zeros || is_called_identity(column->name)))
            list_add(train, "categories", table, i);
    }
}

/* Names the column, by its number where no row has a name that finds it. */
static void column_set(struct json_object *source, const char *key,
                       const struct table_inspection *table, int32_t column)
{
    if (table->columns[column].needs_number)
        json_set_int(source, key, column);
    else
        json_set_string(source, key, table->columns[column].name);
}

static void add_missing(struct json_object *train, const struct dataset_config *config)
{
    struct json_object *list;

    if (!config->table.missing_words)
        return;
    list = json_object_new_array();
    for (int i = 0; i < config->table.missing_word_count; i++)
        json_object_array_add(list, json_object_new_string(config->table.missing_words[i]));
    json_set(train, "missing", list);
}

/* Columns of two numbers have no bins. */
static bool bins_pay(const struct table_inspection *table)
{
    int32_t columns = 0;

    for (int32_t i = 0; i < table->count; i++)
        columns += i != table->target && strcmp(table->columns[i].kind, "number") == 0 &&
                   (table->columns[i].different < 0 || table->columns[i].different > 2);
    return columns > 0 && columns <= COLUMNS_WITH_BINS_MAX;
}

static void add_rows(struct json_object *choices, const struct detection *detection,
                     const struct table_inspection *table, const struct dataset_config *config)
{
    const struct table_inspection_column *target = &table->columns[table->target];
    bool values = !table->classes && target->numeric;

    for (int i = 0; i < (table->classes && target->numeric ? 2 : 1); i++) {
        struct json_object *data = suggestion_data_new(detection, "table");
        struct json_object *train = json_get(data, "train");

        if (config->table.decimal != DATASET_DECIMAL_AUTO)
            json_set_string(train, "decimal", dataset_decimal_to_string(config->table.decimal));
        if (config->csv.delimiter)
            json_set_string(train, "delimiter", (char[]){config->csv.delimiter, '\0'});
        if (*config->csv.comment_prefix)
            json_set_string(train, "comment", config->csv.comment_prefix);
        add_missing(train, config);
        column_set(train, "label_column", table, table->target);
        suggest_categories(table, train);
        if (bins_pay(table))
            json_set_int(train, "bins", TABLE_BINS);
        suggestion_add(choices, i || values ? "numbers" : "classes", &table_recipe, data,
                       table->rows, i || values);
    }
}

/* ---- texts ---- */

/* Whether the examples of the column are long texts; `*is_dna`: of nucleotides alone. */
static bool is_sequence(const struct table_inspection_column *column, bool *is_dna)
{
    if (column->numeric || !column->examples[0][0])
        return false;
    for (int i = 0; i < TABLE_EXAMPLES && column->examples[i][0]; i++) {
        const char *text = column->examples[i];

        if (strlen(text) < SEQUENCE_BYTES)
            return false;
        *is_dna = *is_dna && text[strspn(text, "ACGTUNacgtun")] == '\0';
    }
    return true;
}

/* The only column of long texts, if texts of it hardly ever return; -1: there is none. */
static int32_t find_sequence(const struct table_inspection *table, bool *is_dna)
{
    int32_t found = -1;

    for (int32_t i = 0; i < table->count; i++) {
        const struct table_inspection_column *column = &table->columns[i];
        bool dna = true;

        if (i == table->target || strcmp(column->kind, "left out") != 0 ||
            !is_sequence(column, &dna))
            continue;
        if (found >= 0)
            return -1;
        found = i;
        *is_dna = dna;
    }
    return found;
}

/* Whether rows have something to learn from beside texts. */
static bool has_features(const struct table_inspection *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (i != table->target && strcmp(table->columns[i].kind, "left out") != 0)
            return true;
    return false;
}

static void add_sequences(struct json_object *choices, const struct detection *detection,
                          const struct table_inspection *table)
{
    bool is_dna;
    int32_t column = find_sequence(table, &is_dna);
    struct json_object *data, *train;

    if (column < 0 || !table->classes)
        return;
    data = suggestion_data_new(detection, "csv_sequences");
    train = json_get(data, "train");
    column_set(train, "sequence_column", table, column);
    column_set(train, "label_column", table, table->target);
    if (table->delimiter != ',')
        json_set_string(train, "delimiter", (char[]){table->delimiter, '\0'});
    suggestions_add_sequences(choices, data, is_dna, table->rows, table->columns[column].longest);
}

/* ---- time ---- */

static bool is_called_time(const char *name)
{
    static const char *const names[] = {"date", "time",  "datetime", "timestamp",
                                        "day",  "month", "year",     "week"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* "2016-07-01 00:00:00", "1949-01": in the order of bytes it is that of time. */
static bool is_iso_date(const char *text)
{
    static const char form[] = "dddd-dd";

    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
            return false;
    return true;
}

/* Whether most rows have a time of their own. Where many share one, such as people asked in each of
 * two years, they do not follow each other. */
static bool is_each_rows_time(const struct table_inspection_column *time)
{
    return time->different < 0 || 2 * (int64_t)time->different > time->present;
}

/* Whether the rows follow each other in time; `*newest_first`: backwards. */
static bool is_series(const struct table_inspection *table, bool *newest_first)
{
    const struct table_inspection_column *time = &table->columns[0];

    if (!table->has_header || table->rows < SERIES_ROWS || table->target == 0 ||
        !table->columns[table->target].numeric || time->missing ||
        (!is_iso_date(time->examples[0]) && !is_called_time(time->name)) ||
        (!time->rises && !time->falls) || !is_each_rows_time(time))
        return false;
    for (int32_t i = 1; i < table->count; i++)
        if (!table->columns[i].numeric || table->columns[i].missing || table->columns[i].problem[0])
            return false;
    *newest_first = !time->rises;
    return true;
}

static void rows_set(struct json_object *source, double from, double to)
{
    struct json_object *rows = json_object_new_array();

    json_object_array_add(rows, json_new_double(from));
    json_object_array_add(rows, json_new_double(to));
    json_set(source, "rows", rows);
}

static struct json_object *series_data_new(const struct detection *detection,
                                           const struct table_inspection *table, bool newest_first)
{
    struct json_object *data = suggestion_data_new(detection, "time_series");
    struct json_object *train = json_get(data, "train"), *test = json_object_new_object();
    struct json_object *targets = json_object_new_array(), *features = json_object_new_array();
    int64_t input = table->rows / SERIES_PART;

    json_set_int(train, "input", input > INPUT_MOST ? INPUT_MOST : input);
    json_set_int(train, "horizon", 1);
    for (int32_t i = 1; i < table->count; i++)
        json_object_array_add(features, json_object_new_string(table->columns[i].name));
    json_set(train, "features", features);
    json_object_array_add(targets, json_object_new_string(table->columns[table->target].name));
    json_set(train, "targets", targets);
    if (table->delimiter != ',')
        json_set_string(train, "delimiter", (char[]){table->delimiter, '\0'});
    if (newest_first)
        json_set_bool(train, "newest_first", true);
    if (detection->test.path_count)
        return data;
    rows_set(train, 0, 1 - 1.0 / TEST_IN);
    json_set_string(test, "path", detection->train.paths[0]);
    rows_set(test, 1 - 1.0 / TEST_IN, 1);
    json_set(data, "test", test);
    return data;
}

static void add_series(struct json_object *choices, struct detection *detection,
                       const struct table_inspection *table, const struct dataset_config *config)
{
    bool newest_first;

    if (config->table.decimal == DATASET_DECIMAL_COMMA || !is_series(table, &newest_first))
        return;
    for (size_t i = 0; i < sizeof series_recipes / sizeof *series_recipes; i++)
        suggestion_add(choices, "forecast", &series_recipes[i],
                       series_data_new(detection, table, newest_first), table->rows, true);
    detection_note(detection,
                   "the rows follow each other in time: the next value of \"%s\" is forecast from "
                   "the rows before, and the last fifth of them is the test",
                   table->columns[table->target].name);
}

void suggestions_add_table(struct json_object *choices, struct detection *detection,
                           const struct table_inspection *table,
                           const struct dataset_config *config)
{
    bool rows = has_features(table);

    if (table->obstacle)
        return;
    suggestions_add_image_table(choices, detection, table);
    add_series(choices, detection, table, config);
    if (rows)
        add_rows(choices, detection, table, config);
    add_sequences(choices, detection, table);
    if (!json_object_array_length(choices))
        add_rows(choices, detection, table, config);
}
