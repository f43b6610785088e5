/* worker_inspect.c: `traind-worker inspect` shows what is understood of a file or a folder of data,
 * and a specification that would learn from it. */
#include "base/cleanup.h"
#include "base/text.h"
#include "proto/json.h"
#include "worker/trainee/inspection.h"
#include "worker/trainee/recipe_measure.h"
#include "worker/trainee/suggestion.h"
#include "worker/trainee/worker_options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_SHOWN = 28, DETAILS_BYTES = TABLE_PROBLEM_BYTES + 64 };

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

static void print_measured(struct json_object *measured)
{
    struct json_object *sentences = json_get(measured, "sentences");

    for (size_t i = 0; sentences && i < json_object_array_length(sentences); i++)
        printf("measured: %s\n", json_object_get_string(json_object_array_get_idx(sentences, i)));
}

static void print_specification(struct json_object *choices)
{
    struct json_object *spec = first_choice(choices);

    printf("{\"model\": %s,\n", part_text(spec, "model"));
    printf(" \"data\": %s,\n", part_text(spec, "data"));
    if (json_get(json_get(spec, "checkpoint"), "best"))
        printf(" \"checkpoint\": %s,\n", part_text(spec, "checkpoint"));
    printf(" \"train\": %s}\n", part_text(spec, "train"));
}

static void print_suggestion(const struct inspection *inspection, struct json_object *choices)
{
    const struct table_inspection *table = &inspection->table;
    const struct table_inspection_column *target = &table->columns[table->target];
    bool is_of_classes = !json_get(json_get(first_choice(choices), "model"), "loss");
    char shown[4 * NAME_SHOWN + 8];

    text_fit(target->name, NAME_SHOWN, shown, sizeof shown);
    if (inspection->problem[0]) {
        printf(table->obstacle ? "\nNo column can be predicted; of \"%s\": %s.\n"
                               : "\n\"%s\" cannot be predicted from this table: %s.\n",
               shown, inspection->problem);
        return;
    }
    printf("\nTo predict \"%s\"", shown);
    if (is_of_classes && table->classes)
        printf(", one of %d classes", table->classes);
    printf(" (another column: --target%s):\n\n", !target->numeric ? ""
                                                 : is_of_classes && table->classes
                                                     ? "; numbers: --task numbers"
                                                 : is_of_classes ? ""
                                                                 : "; classes: leave out loss");
    print_specification(choices);
}

static void print_table(const struct inspection *inspection)
{
    const struct table_inspection *table = &inspection->table;
    char shown[4 * NAME_SHOWN + 8], details[DETAILS_BYTES];

    printf("%s: %lld rows, %d columns, %s, between them %s, %s\n\n", inspection->path,
           (long long)table->rows, table->count, table->encoding,
           table->delimiter == '\t'  ? "tabs"
           : table->delimiter == ' ' ? "blanks"
                                     : (char[]){table->delimiter, '\0'},
           table->has_header ? "the first row has their names" : "no row has their names");
    if (table->comments)
        printf("Lines that begin with \"%s\" are left out: %lld\n\n",
               text_escape_controls(inspection->comment, shown, sizeof shown),
               (long long)table->comments);
    printf("%-*s %-9s %9s  %s\n", NAME_SHOWN, "column", "type", "missing", "");
    for (int32_t i = 0; i < table->count; i++) {
        const struct table_inspection_column *column = &table->columns[i];
        size_t width;

        width = text_fit(column->name, NAME_SHOWN, shown, sizeof shown);
        column_details(column, details);
        printf("%s%*s %-9s %9lld  %s\n", shown, (int)(NAME_SHOWN - width), "", column->kind,
               (long long)column->missing, details);
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

static void print_text(const struct inspection *inspection, struct json_object *choices,
                       struct json_object *measured)
{
    (inspection->is_table ? print_table : print_files)(inspection);
    print_notes(inspection);
    print_measured(measured);
    if (inspection->is_table)
        print_suggestion(inspection, choices);
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
    return entry;
}

static void add_table(struct json_object *json, const struct inspection *inspection)
{
    const struct table_inspection *table = &inspection->table;
    struct json_object *columns = json_object_new_array();

    json_set_int(json, "rows", table->rows);
    json_set_string(json, "encoding", table->encoding);
    json_set_string(json, "delimiter", (char[]){table->delimiter, '\0'});
    json_set_bool(json, "header", table->has_header);
    json_set_string(json, "comment", table->comments ? inspection->comment : NULL);
    for (int32_t i = 0; i < table->count; i++)
        json_object_array_add(columns, column_new(&table->columns[i]));
    json_set(json, "columns", columns);
    json_set_string(json, "target", table->columns[table->target].name);
    json_set_int(json, "classes", table->classes);
    if (inspection->problem[0])
        json_set_string(json, "problem", inspection->problem);
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

static void print_json(const struct inspection *inspection, struct json_object *choices,
                       struct json_object *measured)
{
    JSON_AUTO struct json_object *json = json_object_new_object();
    const struct detection *files = &inspection->files;
    struct json_object *notes = json_object_new_array();

    json_set_string(json, "file", inspection->path);
    json_set_string(json, "format", dataset_format_to_string(files->format));
    if (inspection->is_table)
        add_table(json, inspection);
    else
        add_files(json, files);
    for (int i = 0; i < files->note_count; i++)
        json_object_array_add(notes, json_object_new_string(files->notes[i]));
    json_set(json, "assumed", notes);
    if (measured)
        json_set(json, "measured", json_object_get(measured));
    if (first_choice(choices))
        json_set(json, "specification", json_object_get(first_choice(choices)));
    json_set(json, "choices", json_object_get(choices));
    json_print(json, stdout);
}

/* A specification names its folder and the files in UTF-8. */
static int check_names(const struct detection *files, struct error *error)
{
    JSON_AUTO struct json_object *names = json_object_new_array();
    const struct detection_set *const sets[] = {&files->train, &files->test};
    AUTO_FREE char *present = getcwd(NULL, 0);
    const char *text;
    size_t length;

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < sets[i]->path_count; k++)
            json_object_array_add(names, json_object_new_string(sets[i]->paths[k]));
    json_object_array_add(names, json_object_new_string(present ? present : ""));
    text = json_text(names, &length);
    return json_check_text(text, length, error);
}

static int inspect(struct inspection *inspection, const char *target, struct error *error)
{
    int r = detection_open(inspection->path, &inspection->files, error);

    inspection->is_table = inspection->files.format == DATASET_TABLE;
    if (r == 0)
        r = check_names(&inspection->files, error);
    if (r < 0)
        return r;
    if (inspection->is_table)
        return inspection_read_table(inspection, target, error);
    if (target)
        return error_set(error, -EINVAL,
                         "%s is no table, so it has no column \"%s\"; leave --target out",
                         inspection->path, target);
    return 0;
}

/* Puts the choices of the task before the others. */
static int prefer_task(const struct inspection *inspection, const char *task,
                       struct json_object **choices, struct error *error)
{
    struct json_object *sorted = json_object_new_array();
    size_t found = 0, count = json_object_array_length(*choices);
    char tasks[128] = "";

    for (int others = 0; others < 2; others++)
        for (size_t i = 0; i < count; i++) {
            struct json_object *choice = json_object_array_get_idx(*choices, i);
            bool wanted = strcmp(json_get_string(choice, "task", ""), task) == 0;

            found += wanted && !others;
            if (!others && !strstr(tasks, json_get_string(choice, "task", "")))
                snprintf(tasks + strlen(tasks), sizeof tasks - strlen(tasks), "%s%s",
                         *tasks ? ", " : "", json_get_string(choice, "task", ""));
            if (wanted == !others)
                json_object_array_add(sorted, json_object_get(choice));
        }
    json_object_put(*choices);
    *choices = sorted;
    if (found || !count) /* without choices the inspection says why */
        return 0;
    return error_set(error, -EINVAL, "--task=%s: of %s it may be %s", task, inspection->path,
                     tasks);
}

/* Whether columns of numbers could have bins. */
static bool has_numbers(const struct table_inspection *table)
{
    for (int32_t i = 0; i < table->count; i++)
        if (i != table->target && strcmp(table->columns[i].kind, "number") == 0)
            return true;
    return false;
}

/* Chooses by measuring how the first choice is trained, if it learns from the rows of a table.
 * NULL: nothing was to be measured. */
static struct json_object *measure(const struct worker_options *options,
                                   const struct inspection *inspection, struct json_object *choices)
{
    struct json_object *spec = first_choice(choices);
    struct json_object *train = json_get(json_get(spec, "data"), "train"), *measured, *list;

    if (!options->measure || !spec)
        return NULL;
    if (strcmp(json_get_string(train, "format", ""), "table") == 0 &&
        !json_get(train, "image_column"))
        return recipe_measure(options, spec, inspection->table.rows,
                              has_numbers(&inspection->table));
    measured = json_object_new_object();
    list = json_object_new_array();
    json_object_array_add(list,
                          json_object_new_string("only ways to learn from the rows of a table "
                                                 "are compared; the usual one is suggested"));
    json_set(measured, "sentences", list);
    return measured;
}

int worker_inspect(const struct worker_options *options)
{
    struct inspection inspection = {.path = options->input};
    JSON_AUTO struct json_object *choices = NULL, *measured = NULL;
    struct error error = {0};
    int r = inspect(&inspection, options->target, &error);

    if (r == 0) {
        choices = suggestions_new(&inspection.files, inspection.is_table ? &inspection.table : NULL,
                                  &inspection.config);
        if (inspection.is_table)
            inspection_try(&inspection, choices);
        r = options->task ? prefer_task(&inspection, options->task, &choices, &error) : 0;
    }
    if (r < 0) {
        fprintf(stderr, "traind-worker: %s\n", error.text);
    } else {
        measured = measure(options, &inspection, choices);
        (options->json ? print_json : print_text)(&inspection, choices, measured);
    }
    table_inspection_release(&inspection.table);
    detection_release(&inspection.files);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
