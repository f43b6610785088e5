/* inspection_table.c: see inspection.h. */
#include "worker/trainee/inspection.h"
#include "worker/trainee/worker_setup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- how it is read ---- */

static int count_commas(const struct table_inspection *inspection)
{
    int count = 0;

    for (int32_t i = 0; i < inspection->count; i++)
        count += inspection->columns[i].has_commas;
    return count;
}

static int count_numbers(const struct table_inspection *inspection)
{
    int count = 0;

    for (int32_t i = 0; i < inspection->count; i++)
        count += inspection->columns[i].numeric && !inspection->columns[i].problem[0];
    return count;
}

/* Where commas may be the decimal sign, finds out by which reading the most columns are numbers. If
 * there is no difference, three digits behind each comma make it part thousands. */
static int read_decimal(struct dataset_config *config, struct table_inspection *inspection,
                        struct error *error)
{
    static const enum dataset_decimal decimals[] = {DATASET_DECIMAL_POINT, DATASET_DECIMAL_COMMA};
    enum dataset_decimal best = DATASET_DECIMAL_AUTO;
    int r;

    config->table.decimal = best;
    r = table_inspect(config, inspection, error);
    if (r < 0 || !count_commas(inspection))
        return r;
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals && r == 0; i++) {
        struct table_inspection other;

        config->table.decimal = decimals[i];
        r = table_inspect(config, &other, error);
        if (r == 0 && count_numbers(&other) > count_numbers(inspection)) {
            struct table_inspection worse = *inspection;

            *inspection = other;
            other = worse;
            best = decimals[i];
        }
        table_inspection_release(&other);
    }
    config->table.decimal = best;
    return r;
}

/* Whether the table is read better without the lines that begin as its first row does: comments, or
 * a title, which no other line begins as. */
static bool is_better(const struct table_inspection *inspection, bool readable,
                      const struct table_inspection *other)
{
    bool marks = table_comment_is_mark(inspection->probable_comment);

    if (!marks && other->comments != 1)
        return false;
    if (!readable || other->count > inspection->count)
        return true;
    if (other->count < inspection->count || !other->has_header)
        return false;
    return marks ? count_numbers(other) > count_numbers(inspection) : other->count > 1;
}

/* Leaves out comments, or a title above the table, where it is none of its rows. `comment` outlives
 * the configuration. */
static int read_table(struct dataset_config *config, char comment[TABLE_COMMENT_BYTES],
                      struct table_inspection *inspection, struct error *error)
{
    int r = read_decimal(config, inspection, error);
    enum dataset_decimal decimal = config->table.decimal;
    struct table_inspection other;
    struct error ignored;

    if (!inspection->probable_comment[0])
        return r;
    snprintf(comment, TABLE_COMMENT_BYTES, "%s", inspection->probable_comment);
    config->csv.comment_prefix = comment;
    if (read_decimal(config, &other, &ignored) == 0 && is_better(inspection, r == 0, &other)) {
        table_inspection_release(inspection);
        *inspection = other;
        return 0;
    }
    table_inspection_release(&other);
    config->csv.comment_prefix = "";
    config->table.decimal = decimal;
    return r;
}

/* Whether the table may be one of a single column, or of blanks with tabs among them, as UCI's
 * auto-mpg: no column of tabs is one of numbers or dates. */
static bool may_have_blanks(const struct table_inspection *table)
{
    for (int32_t i = 0; i < table->count && table->count > 1; i++)
        if (table->columns[i].numeric || strcmp(table->columns[i].kind, "date") == 0)
            return false;
    return table->count == 1 || table->delimiter == '\t';
}

/* Where no delimiter parts the rows, blanks may, as in tables that are made for the eye. Among tabs
 * most of what they part has to be numbers. */
static void read_blanks(struct inspection *inspection)
{
    struct table_inspection *table = &inspection->table, other;
    struct dataset_config config = inspection->config;
    struct error ignored;

    if (!may_have_blanks(table))
        return;
    config.csv.delimiter = ' ';
    if (table_inspect(&config, &other, &ignored) == 0 && other.count > table->count &&
        count_numbers(&other) > (table->count > 1 ? other.count / 2 : 0)) {
        struct table_inspection worse = *table;

        *table = other;
        other = worse;
        inspection->config = config;
    }
    table_inspection_release(&other);
}

/* Whether columns of texts say as much as before: a "-" among them may be a value. */
static bool has_same_texts(const struct table_inspection *one, const struct table_inspection *other)
{
    for (int32_t i = 0; i < one->count; i++)
        if (!one->columns[i].numeric && one->columns[i].present != other->columns[i].present)
            return false;
    return one->count == other->count;
}

/* Takes words such as "-" and "nil", where all else in a column is numbers, as no value. */
static void read_missing(struct inspection *inspection)
{
    struct table_inspection *table = &inspection->table, other;
    struct dataset_config config = inspection->config;
    struct error ignored;
    bool found = false;

    for (int32_t i = 0; i < table->count; i++)
        found = found || table->columns[i].has_placeholders;
    if (!found)
        return;
    inspection->missing = table->missing;
    for (int i = 0; i < inspection->missing.count; i++)
        inspection->missing_words[i] = inspection->missing.texts[i];
    config.table.missing_words = inspection->missing_words;
    config.table.missing_word_count = inspection->missing.count;
    if (table_inspect(&config, &other, &ignored) == 0 && has_same_texts(table, &other) &&
        count_numbers(&other) > count_numbers(table)) {
        struct table_inspection worse = *table;

        *table = other;
        other = worse;
        inspection->config = config;
        detection_note(&inspection->files, "words such as \"%s\" stand for no value (missing)",
                       inspection->missing.texts[inspection->missing.count - 1]);
    }
    table_inspection_release(&other);
}

/* Whether the table has a column of this name. */
static bool has_column(const struct table_inspection *table, const char *name)
{
    for (int32_t i = 0; i < table->count && table->has_header; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return true;
    return false;
}

/* The only column that the test table lacks: as in competitions, what is to be predicted is left
 * out there. -1: it is not one. */
static int32_t find_left_out(const struct table_inspection *table,
                             const struct table_inspection *test)
{
    int32_t found = -1;

    for (int32_t i = 0; i < table->count && table->has_header && test->has_header; i++)
        if (!has_column(test, table->columns[i].name)) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

/* Predicts the column that the test table leaves out, unless another one is called a target. */
static void follow_test_table(struct inspection *inspection, const struct table_inspection *test)
{
    struct table_inspection *table = &inspection->table;
    int32_t column = table->is_called ? -1 : find_left_out(table, test);
    struct error ignored;

    if (column < 0 || column == table->target ||
        table_inspection_set_target(table, table->columns[column].name, &ignored) < 0)
        return;
    table->passed_over_reason = NULL;
    detection_note(&inspection->files, "%s has all columns but \"%s\", so that is to be predicted",
                   inspection->files.test.paths[0], table->columns[column].name);
}

/* A table that lacks the column to predict is no test set, but data to predict for. `target`: what
 * somebody has said is to be predicted. */
static void check_test_table(struct inspection *inspection, const char *target)
{
    struct detection_set *test = &inspection->files.test;
    struct dataset_config config = inspection->config;
    struct table_inspection table = {0};
    struct error error = {0};
    const char *name;
    bool found = false, readable;

    if (!test->path_count)
        return;
    config.paths = (const char *const *)test->paths;
    readable = table_inspect(&config, &table, &error) == 0;
    if (readable && !target)
        follow_test_table(inspection, &table);
    name = inspection->table.columns[inspection->table.target].name;
    if (readable)
        found = has_column(&table, name) ||
                (!inspection->table.has_header && table.count == inspection->table.count);
    table_inspection_release(&table);
    if (found)
        return;
    if (readable)
        detection_note(
            &inspection->files,
            "but %s has no column \"%s\", so it is no test set; `trainctl predict` reads it",
            test->paths[0], name);
    else
        detection_note(&inspection->files, "but %s is no test set: %s", test->paths[0], error.text);
    free(test->paths[--test->path_count]);
}

/* Says so where another column than the expected one is predicted. */
static void note_target(struct inspection *inspection)
{
    const struct table_inspection *table = &inspection->table;

    if (table->passed_over_reason && !table->obstacle)
        detection_note(&inspection->files,
                       "the column \"%s\" cannot be predicted: %s; \"%s\" is taken instead",
                       table->columns[table->passed_over].name, table->passed_over_reason,
                       table->columns[table->target].name);
}

int inspection_read_table(struct inspection *inspection, const char *target, struct error *error)
{
    int r;

    inspection->config =
        (struct dataset_config){.format = DATASET_TABLE,
                                .paths = (const char *const *)inspection->files.train.paths,
                                .path_count = 1,
                                .target = DATASET_TARGET_CLASS,
                                .csv.comment_prefix = ""};
    r = read_table(&inspection->config, inspection->comment, &inspection->table, error);
    if (r == 0) {
        read_blanks(inspection);
        read_missing(inspection);
    }
    if (r == 0 && target)
        r = table_inspection_set_target(&inspection->table, target, error);
    if (r < 0)
        return r;
    check_test_table(inspection, target);
    if (!target)
        note_target(inspection);
    return 0;
}

/* ---- whether it trains ---- */

/* The bytes of all samples, roughly. */
static double count_bytes(const struct table_inspection *inspection)
{
    enum { DATE_FEATURES = 7 };
    double features = 0;

    for (int32_t i = 0; i < inspection->count; i++)
        features += strcmp(inspection->columns[i].kind, "category") == 0
                        ? inspection->columns[i].different
                        : DATE_FEATURES;
    return features * (double)inspection->rows * sizeof(float);
}

/* Why a specification does not train: it is tried. */
static int try_specification(struct json_object *specification, struct error *error)
{
    JSON_AUTO struct json_object *spec = NULL;
    char present[PATH_MAX];

    if (!getcwd(present, sizeof present) || json_object_deep_copy(specification, &spec, NULL) < 0)
        return 0;
    json_set_string(spec, "directory", present);
    return worker_setup_try(json_object_to_json_string(spec), error);
}

/* Leaves out a test table that does not fit. */
static int try_choice(struct inspection *inspection, struct json_object *choice,
                      struct error *error)
{
    struct json_object *spec = json_get(choice, "specification"), *data = json_get(spec, "data");
    struct json_object *test = json_object_get(json_get(data, "test"));
    int r = try_specification(spec, error);
    struct error alone;

    if (r < 0 && test && inspection->files.test.path_count) {
        json_object_object_del(data, "test");
        if (try_specification(spec, &alone) == 0) {
            detection_note(&inspection->files, "but %s is no test set: %s",
                           inspection->files.test.paths[0], error->text);
            r = 0;
        }
    }
    json_object_put(test);
    return r;
}

/* Images are not decoded only to see whether they can be. */
static bool has_images(struct json_object *choice)
{
    struct json_object *data = json_get(json_get(choice, "specification"), "data");

    return json_get(json_get(data, "train"), "image_column");
}

void inspection_try(struct inspection *inspection, struct json_object *choices)
{
    const double bytes_most = 1 << 30; /* that are read for it */
    struct error error, first = {0};

    if (inspection->table.obstacle)
        snprintf(first.text, sizeof first.text, "%s", inspection->table.obstacle);
    else if (count_bytes(&inspection->table) > bytes_most)
        return;
    for (size_t i = 0; i < json_object_array_length(choices);) {
        if (has_images(json_object_array_get_idx(choices, i)) ||
            try_choice(inspection, json_object_array_get_idx(choices, i), &error) == 0) {
            i++;
            continue;
        }
        if (!first.text[0])
            first = error;
        json_object_array_del_idx(choices, i, 1);
    }
    if (json_object_array_length(choices) == 0)
        snprintf(inspection->problem, sizeof inspection->problem, "%s", first.text);
}
