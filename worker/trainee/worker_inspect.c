/* worker_inspect.c: `traind-worker inspect` shows what is understood of a file or a folder of data,
 * and a specification that would learn from it. */
#include "base/cleanup.h"
#include "base/text.h"
#include "engine/data/detection.h"
#include "engine/data/table_inspection.h"
#include "proto/json.h"
#include "worker/trainee/suggestion.h"
#include "worker/trainee/worker_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SHOWN = 28, DETAILS_BYTES = TABLE_PROBLEM_BYTES + 64 };

/* What was found at a path. */
struct inspection {
    const char *path;
    struct detection files;
    bool is_table;
    struct table_inspection table; /* of the first file of the training set */
    struct dataset_config config;
};

static void column_details(const struct table_inspection_column *column, char text[DETAILS_BYTES])
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

static const char *part_text(struct json_object *spec, const char *key)
{
    return json_object_to_json_string_ext(json_get(spec, key),
                                          JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* The specification that was chosen first; NULL: there is none. */
static struct json_object *first_choice(struct json_object *choices)
{
    return choices && json_object_array_length(choices)
               ? json_get(json_object_array_get_idx(choices, 0), "specification")
               : NULL;
}

static void print_notes(const struct inspection *inspection)
{
    for (int i = 0; i < inspection->files.note_count; i++) {
        char shown[1024];

        printf("assumed: %s\n",
               text_escape_controls(inspection->files.notes[i], shown, sizeof shown));
    }
}

static void print_specification(struct json_object *choices)
{
    struct json_object *spec = first_choice(choices);

    printf("{\"model\": %s,\n", part_text(spec, "model"));
    printf(" \"data\": %s,\n", part_text(spec, "data"));
    printf(" \"train\": %s}\n", part_text(spec, "train"));
}

static void print_suggestion(const struct table_inspection *table, struct json_object *choices)
{
    const struct table_inspection_column *target = &table->columns[table->target];
    char shown[4 * NAME_SHOWN + 8], cut[NAME_SHOWN + 1];

    snprintf(cut, sizeof cut, "%s", target->name);
    text_escape_controls(cut, shown, sizeof shown);
    if (table->obstacle) {
        printf("\nNo column can be predicted; of \"%s\" %s.\n", shown, table->obstacle);
        return;
    }
    printf("\nTo predict \"%s\"", shown);
    if (table->classes)
        printf(", one of %d classes", table->classes);
    printf(" (another column: --target%s):\n\n",
           table->classes || !target->numeric ? "" : "; classes: leave out loss");
    print_specification(choices);
}

static void print_table(const struct inspection *inspection)
{
    const struct table_inspection *table = &inspection->table;
    char shown[4 * NAME_SHOWN + 8], cut[NAME_SHOWN + 1], details[DETAILS_BYTES];

    printf("%s: %lld rows, %d columns, %s, between them %s, %s\n\n", inspection->path,
           (long long)table->rows, table->count, table->encoding,
           table->delimiter == '\t' ? "tabs" : (char[]){table->delimiter, '\0'},
           table->has_header ? "the first row has their names" : "no row has their names");
    printf("%-*s %-9s %9s  %s\n", NAME_SHOWN, "column", "type", "missing", "");
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_inspection_column *column = &table->columns[i];

        snprintf(cut, sizeof cut, "%s", column->name);
        column_details(column, details);
        printf("%-*s %-9s %9lld  %s\n", NAME_SHOWN, text_escape_controls(cut, shown, sizeof shown),
               column->kind, (long long)column->missing, details);
    }
}

/* "idx, 60000 samples of [1, 28, 28], 10 classes" */
static void print_files(const struct inspection *inspection)
{
    const struct detection *files = &inspection->files;

    printf("%s: %s", inspection->path, dataset_format_to_string(files->format));
    if (files->samples)
        printf(", %lld %s", (long long)files->samples,
               files->format == DATASET_TEXT ? "bytes" : "samples");
    for (int i = 0; i < files->rank; i++)
        printf("%s%lld%s", i ? ", " : " of [", (long long)files->shape[i],
               i + 1 < files->rank ? "" : "]");
    if (files->sizes_differ)
        printf(", the first, and other sizes");
    if (files->class_count)
        printf(", %d classes", files->class_count);
    printf("\n\n");
}

static void print_text(const struct inspection *inspection, struct json_object *choices)
{
    (inspection->is_table ? print_table : print_files)(inspection);
    print_notes(inspection);
    if (inspection->is_table)
        print_suggestion(&inspection->table, choices);
    else {
        if (inspection->files.note_count)
            putchar('\n');
        print_specification(choices);
    }
}

static struct json_object *column_new(const struct table_inspection_column *column)
{
    struct json_object *entry = json_object_new_object(), *examples = json_object_new_array();

    json_set_string(entry, "name", column->name);
    json_set_string(entry, "type", column->kind);
    json_set_string(entry, "reason", column->problem[0] ? column->problem : column->reason);
    json_set_int(entry, "present", column->present);
    json_set_int(entry, "missing", column->missing);
    if (column->different >= 0)
        json_set_int(entry, "different", column->different);
    if (!isnan(column->lowest)) {
        json_set_double(entry, "lowest", column->lowest);
        json_set_double(entry, "highest", column->highest);
    }
    for (int k = 0; k < TABLE_EXAMPLES && column->examples[k][0]; k++)
        json_object_array_add(examples, json_object_new_string(column->examples[k]));
    json_set(entry, "examples", examples);
    return entry;
}

static void add_table(struct json_object *json, const struct table_inspection *table)
{
    struct json_object *columns = json_object_new_array();

    json_set_int(json, "rows", table->rows);
    json_set_string(json, "encoding", table->encoding);
    json_set_string(json, "delimiter", (char[]){table->delimiter, '\0'});
    json_set_bool(json, "header", table->has_header);
    for (int32_t i = 0; i < table->count; i++)
        json_object_array_add(columns, column_new(&table->columns[i]));
    json_set(json, "columns", columns);
    json_set_string(json, "target", table->columns[table->target].name);
    json_set_int(json, "classes", table->classes);
    if (table->obstacle)
        json_set_string(json, "problem", table->obstacle);
}

static void add_files(struct json_object *json, const struct detection *files)
{
    struct json_object *shape = json_object_new_array();

    if (files->samples)
        json_set_int(json, "samples", files->samples);
    for (int i = 0; i < files->rank; i++)
        json_object_array_add(shape, json_object_new_int64(files->shape[i]));
    json_set(json, "shape", shape);
    if (files->class_count)
        json_set_int(json, "classes", files->class_count);
}

static void print_json(const struct inspection *inspection, struct json_object *choices)
{
    JSON_AUTO struct json_object *json = json_object_new_object();
    const struct detection *files = &inspection->files;
    struct json_object *notes = json_object_new_array();

    json_set_string(json, "file", inspection->path);
    json_set_string(json, "format", dataset_format_to_string(files->format));
    if (inspection->is_table)
        add_table(json, &inspection->table);
    else
        add_files(json, files);
    for (int i = 0; i < files->note_count; i++)
        json_object_array_add(notes, json_object_new_string(files->notes[i]));
    json_set(json, "assumed", notes);
    if (first_choice(choices))
        json_set(json, "specification", json_object_get(first_choice(choices)));
    json_set(json, "choices", json_object_get(choices));
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

/* Takes the comma for the decimal sign where more columns are numbers then. */
static int read_table(struct dataset_config *config, struct table_inspection *inspection,
                      struct error *error)
{
    int r = table_inspect(config, inspection, error);
    struct table_inspection other = {0};

    if (r < 0 || !count_commas(inspection))
        return r;
    config->table.decimal_comma = true;
    r = table_inspect(config, &other, error);
    if (r == 0 && count_numbers(&other) > count_numbers(inspection)) {
        table_inspection_release(inspection);
        *inspection = other;
        return 0;
    }
    config->table.decimal_comma = false;
    table_inspection_release(&other);
    return r;
}

/* A table that lacks the column to predict is no test set, but data to predict for. */
static void check_test_table(struct inspection *inspection)
{
    struct detection_set *test = &inspection->files.test;
    struct dataset_config config = inspection->config;
    struct table_inspection table = {0};
    struct error error = {0};
    const char *target = inspection->table.columns[inspection->table.target].name;
    bool found = false;

    if (!test->path_count)
        return;
    config.paths = (const char *const *)test->paths;
    if (table_inspect(&config, &table, &error) == 0) {
        found = !inspection->table.has_header && table.count == inspection->table.count;
        for (int32_t i = 0; i < table.count && table.has_header; i++)
            found = found || strcmp(table.columns[i].name, target) == 0;
    }
    table_inspection_release(&table);
    if (found)
        return;
    detection_note(&inspection->files,
                   "but %s has no column \"%s\", so it is no test set; `trainctl predict` reads it",
                   test->paths[0], target);
    free(test->paths[--test->path_count]);
}

static int inspect_table(struct inspection *inspection, const char *target, struct error *error)
{
    int r;

    inspection->config =
        (struct dataset_config){.format = DATASET_TABLE,
                                .paths = (const char *const *)inspection->files.train.paths,
                                .path_count = 1,
                                .target = DATASET_TARGET_CLASS,
                                .csv.comment_prefix = inspection->files.has_comments ? "#" : ""};
    r = read_table(&inspection->config, &inspection->table, error);
    if (r == 0 && target)
        r = table_inspection_set_target(&inspection->table, target, error);
    if (r == 0)
        check_test_table(inspection);
    return r;
}

static int inspect(struct inspection *inspection, const char *target, struct error *error)
{
    int r = detection_open(inspection->path, &inspection->files, error);

    inspection->is_table = inspection->files.format == DATASET_TABLE;
    if (r < 0)
        return r;
    if (inspection->is_table)
        return inspect_table(inspection, target, error);
    if (target)
        return error_set(error, -EINVAL,
                         "%s is no table, so it has no column \"%s\"; leave --target out",
                         inspection->path, target);
    return 0;
}

int worker_inspect(const struct worker_options *options)
{
    struct inspection inspection = {.path = options->input};
    JSON_AUTO struct json_object *choices = NULL;
    struct error error = {0};
    int r = inspect(&inspection, options->target, &error);

    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
    } else {
        choices = suggestions_new(&inspection.files, inspection.is_table ? &inspection.table : NULL,
                                  &inspection.config);
        (options->json ? print_json : print_text)(&inspection, choices);
    }
    table_inspection_release(&inspection.table);
    detection_release(&inspection.files);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
