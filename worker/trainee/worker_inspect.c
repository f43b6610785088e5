/* worker_inspect.c: `traind-worker inspect` shows what is understood of a table, and a
 * specification that would learn from it. */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/table_inspection.h"
#include "proto/json.h"
#include "worker/trainee/worker_options.h"
#include "worker/trainee/worker_setup.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SHOWN = 28, DETAILS_BYTES = TABLE_PROBLEM_BYTES + 64 };

/* Of eight recipes that tests/bench/tables was run with, this one was behind gradient boosting on
 * the fewest of its tables. Long tables need fewer epochs. */
static const char *const model_recipe = "{\"name\": \"mlp\", \"hidden\": [256, 256]}";
static const char *const train_recipe =
    "{\"optimizer\": {\"name\": \"adamw\", \"lr\": 0.003, \"weight_decay\": 0.1}, "
    "\"schedule\": {\"name\": \"cosine\"}}";
enum { EPOCHS = 200, EPOCHS_LEAST = 20, SAMPLES_TRAINED = 20000000 };

static int64_t choose_epochs(int64_t rows)
{
    int64_t epochs = SAMPLES_TRAINED / (rows > 0 ? rows : 1);

    return epochs > EPOCHS ? EPOCHS : epochs < EPOCHS_LEAST ? EPOCHS_LEAST : epochs;
}

/* What is done with columns that are unclear: few texts are categories, others are left out. */
static void suggest_categories(const struct table_inspection *inspection, struct json_object *train)
{
    for (int32_t i = 0; i < inspection->count; i++) {
        const struct table_inspection_column *column = &inspection->columns[i];
        bool few = column->different >= 0 && 2 * (int64_t)column->different <= column->present;
        const char *key = few ? "categories" : "ignore";
        struct json_object *list = json_get(train, key);

        char number[16];

        if (!column->problem[0] || i == inspection->target)
            continue;
        if (!list)
            json_set(train, key, list = json_object_new_array());
        snprintf(number, sizeof number, "%d", i);
        json_object_array_add(list,
                              json_object_new_string(column->needs_number ? number : column->name));
    }
}

/* "auto", "point" or "comma" */
static void set_decimal(struct dataset_config *config, const char *decimal)
{
    config->table.decimal_comma = strcmp(decimal, "comma") == 0;
    config->table.decimal_point = strcmp(decimal, "point") == 0;
}

static const char *get_decimal(const struct dataset_config *config)
{
    return config->table.decimal_comma ? "comma" : config->table.decimal_point ? "point" : "auto";
}

/* The specification, as JSON. */
static struct json_object *suggest(const struct table_inspection *inspection,
                                   const struct dataset_config *config)
{
    const struct table_inspection_column *target = &inspection->columns[inspection->target];
    struct json_object *spec = json_object_new_object(), *model = json_tokener_parse(model_recipe);
    struct json_object *data = json_object_new_object(), *train = json_object_new_object();
    struct json_object *settings = json_tokener_parse(train_recipe);

    if (!inspection->classes && target->numeric)
        json_set_string(model, "loss", "mse");
    json_set_string(train, "format", "table");
    json_set_string(train, "path", config->paths[0]);
    if (*config->csv.comment_prefix)
        json_set_string(train, "comment", config->csv.comment_prefix);
    if (config->table.decimal_comma || config->table.decimal_point)
        json_set_string(train, "decimal", get_decimal(config));
    if (target->needs_number)
        json_set_int(train, "label_column", inspection->target);
    else
        json_set_string(train, "label_column", target->name);
    suggest_categories(inspection, train);
    json_set(data, "train", train);
    json_set_int(settings, "epochs", choose_epochs(inspection->rows));
    json_set(spec, "model", model);
    json_set(spec, "data", data);
    json_set(spec, "train", settings);
    return spec;
}

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

/* Why what is suggested does not train: it is tried, unless the samples take much memory. */
static int try_suggestion(const struct table_inspection *inspection,
                          const struct dataset_config *config, struct error *error)
{
    const double bytes_most = 1 << 30;
    JSON_AUTO struct json_object *spec = NULL;
    char present[PATH_MAX];

    if (inspection->obstacle)
        return error_set(error, -EINVAL, "%s", inspection->obstacle);
    if (count_bytes(inspection) > bytes_most || !getcwd(present, sizeof present))
        return 0;
    spec = suggest(inspection, config);
    json_set_string(spec, "directory", present);
    return worker_setup_try(json_object_to_json_string(spec), error);
}

static void describe_values(const struct table_inspection_column *column, char text[DETAILS_BYTES])
{
    int used = 0;

    text[0] = '\0';
    if (column->reason || column->problem[0]) {
        snprintf(text, DETAILS_BYTES, "%s", column->reason ? column->reason : column->problem);
        return;
    }
    if (strcmp(column->kind, "number") == 0) {
        snprintf(text, DETAILS_BYTES, "%g to %g%s", column->lowest, column->highest,
                 column->whole ? ", whole" : "");
        return;
    }
    if (strcmp(column->kind, "category") == 0)
        used = snprintf(text, DETAILS_BYTES, "%d: ", column->different);
    for (int i = 0; i < TABLE_EXAMPLES && column->examples[i][0]; i++)
        used += snprintf(text + used, (size_t)(DETAILS_BYTES - used), "%s%s", i ? ", " : "",
                         column->examples[i]);
    if (column->different < 0 || column->different > TABLE_EXAMPLES)
        snprintf(text + used, (size_t)(DETAILS_BYTES - used), ", ...");
}

static void column_details(const struct table_inspection_column *column, char text[DETAILS_BYTES])
{
    size_t used;

    describe_values(column, text);
    used = strlen(text);
    if (column->hint)
        snprintf(text + used, DETAILS_BYTES - used, "%s%s", used ? "; " : "", column->hint);
}

static const char *part_text(struct json_object *spec, const char *key)
{
    return json_object_to_json_string_ext(json_get(spec, key),
                                          JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static void print_suggestion(const struct table_inspection *inspection,
                             const struct dataset_config *config)
{
    const struct table_inspection_column *target = &inspection->columns[inspection->target];
    JSON_AUTO struct json_object *spec = suggest(inspection, config);
    char shown[4 * NAME_SHOWN + 8], cut[NAME_SHOWN + 1];
    struct error error;

    snprintf(cut, sizeof cut, "%s", target->name);
    text_escape_controls(cut, shown, sizeof shown);
    if (try_suggestion(inspection, config, &error) < 0) {
        printf(inspection->obstacle ? "\nNo column can be predicted; of \"%s\": %s.\n"
                                    : "\n\"%s\" cannot be predicted from this table: %s.\n",
               shown, error.text);
        return;
    }
    printf("\nTo predict \"%s\"", shown);
    if (inspection->classes)
        printf(", one of %d classes", inspection->classes);
    printf(" (another column: --target%s):\n\n",
           inspection->classes || !target->numeric ? "" : "; classes: leave out loss");
    printf("{\"model\": %s,\n", part_text(spec, "model"));
    printf(" \"data\": %s,\n", part_text(spec, "data"));
    printf(" \"train\": %s}\n", part_text(spec, "train"));
}

static void print_table(const struct table_inspection *inspection,
                        const struct dataset_config *config)
{
    char shown[4 * NAME_SHOWN + 8], cut[NAME_SHOWN + 1], details[DETAILS_BYTES];

    printf("%s: %lld rows, %d columns, %s, between them %s, %s\n\n", config->paths[0],
           (long long)inspection->rows, inspection->count, inspection->encoding,
           inspection->delimiter == '\t' ? "tabs" : (char[]){inspection->delimiter, '\0'},
           inspection->has_header ? "the first row has their names" : "no row has their names");
    if (inspection->comments)
        printf("Lines that begin with \"%s\" are left out: %lld\n\n",
               text_escape_controls(config->csv.comment_prefix, shown, sizeof shown),
               (long long)inspection->comments);
    printf("%-*s %-9s %9s  %s\n", NAME_SHOWN, "column", "type", "missing", "");
    for (int32_t i = 0; i < inspection->count; i++) {
        const struct table_inspection_column *column = &inspection->columns[i];

        snprintf(cut, sizeof cut, "%s", column->name);
        column_details(column, details);
        printf("%-*s %-9s %9lld  %s\n", NAME_SHOWN, text_escape_controls(cut, shown, sizeof shown),
               column->kind, (long long)column->missing, details);
    }
    print_suggestion(inspection, config);
}

static void print_json(const struct table_inspection *inspection,
                       const struct dataset_config *config)
{
    JSON_AUTO struct json_object *json = json_object_new_object();
    struct json_object *columns = json_object_new_array();
    struct error error;

    json_set_string(json, "file", config->paths[0]);
    json_set_int(json, "rows", inspection->rows);
    json_set_string(json, "encoding", inspection->encoding);
    json_set_string(json, "delimiter", (char[]){inspection->delimiter, '\0'});
    json_set_bool(json, "header", inspection->has_header);
    json_set_string(json, "comment", inspection->comments ? config->csv.comment_prefix : NULL);
    for (int32_t i = 0; i < inspection->count; i++) {
        const struct table_inspection_column *column = &inspection->columns[i];
        struct json_object *entry = json_object_new_object(), *examples = json_object_new_array();

        json_set_string(entry, "name", column->name);
        json_set_string(entry, "type", column->kind);
        json_set_string(entry, "reason", column->problem[0] ? column->problem : column->reason);
        json_set_string(entry, "hint", column->hint);
        json_set_int(entry, "present", column->present);
        json_set_int(entry, "missing", column->missing);
        if (column->different >= 0)
            json_set_int(entry, "different", column->different);
        if (isfinite(column->lowest) && isfinite(column->highest)) {
            json_set_double(entry, "lowest", column->lowest);
            json_set_double(entry, "highest", column->highest);
        }
        for (int k = 0; k < TABLE_EXAMPLES && column->examples[k][0]; k++)
            json_object_array_add(examples, json_object_new_string(column->examples[k]));
        json_set(entry, "examples", examples);
        json_object_array_add(columns, entry);
    }
    json_set(json, "columns", columns);
    json_set_string(json, "target", inspection->columns[inspection->target].name);
    json_set_int(json, "classes", inspection->classes);
    if (try_suggestion(inspection, config, &error) < 0)
        json_set_string(json, "problem", error.text);
    else
        json_set(json, "specification", suggest(inspection, config));
    json_print(json, stdout);
}

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
static int inspect_decimal(struct dataset_config *config, struct table_inspection *inspection,
                           struct error *error)
{
    static const char *const decimals[] = {"point", "comma"};
    const char *best = "auto";
    int r;

    set_decimal(config, best);
    r = table_inspect(config, inspection, error);
    if (r < 0 || !count_commas(inspection))
        return r;
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals && r == 0; i++) {
        struct table_inspection other;

        set_decimal(config, decimals[i]);
        r = table_inspect(config, &other, error);
        if (r == 0 && count_numbers(&other) > count_numbers(inspection)) {
            struct table_inspection worse = *inspection;

            *inspection = other;
            other = worse;
            best = decimals[i];
        }
        table_inspection_release(&other);
    }
    set_decimal(config, best);
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
static int inspect(struct dataset_config *config, char comment[TABLE_COMMENT_BYTES],
                   struct table_inspection *inspection, struct error *error)
{
    int r = inspect_decimal(config, inspection, error);
    const char *decimal = get_decimal(config);
    struct table_inspection other;
    struct error ignored;

    if (!inspection->probable_comment[0])
        return r;
    snprintf(comment, TABLE_COMMENT_BYTES, "%s", inspection->probable_comment);
    config->csv.comment_prefix = comment;
    if (inspect_decimal(config, &other, &ignored) == 0 && is_better(inspection, r == 0, &other)) {
        table_inspection_release(inspection);
        *inspection = other;
        return 0;
    }
    table_inspection_release(&other);
    config->csv.comment_prefix = "";
    set_decimal(config, decimal);
    return r;
}

int worker_inspect(const struct worker_options *options)
{
    struct dataset_config config = {.format = DATASET_TABLE,
                                    .paths = &options->input,
                                    .path_count = 1,
                                    .target = DATASET_TARGET_CLASS,
                                    .csv.comment_prefix = ""};
    char comment[TABLE_COMMENT_BYTES];
    struct table_inspection inspection;
    struct error error = {0};
    int r = inspect(&config, comment, &inspection, &error);

    if (r == 0 && options->target)
        r = table_inspection_set_target(&inspection, options->target, &error);
    if (r < 0)
        fprintf(stderr, "traind-worker: %s\n", error.text);
    else
        (options->json ? print_json : print_table)(&inspection, &config);
    table_inspection_release(&inspection);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
